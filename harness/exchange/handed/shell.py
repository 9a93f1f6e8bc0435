"""The commands of a shell script, as bash itself expands them, without running any.

bash runs the script in its restricted mode with an empty search path: variables, arithmetic, arrays, conditions and loops work, programs
are not found, files cannot be written. What would have been run is told by `command_not_found_handle`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.configuration.error import ConfigError

_SECONDS = 20
_FEW = 8  # words of a command that trains are more
# Words of a command end with a unit separator, commands with a record separator: neither stands in a script.
_PREAMBLE = r"""
command_not_found_handle() { printf '%s\037' "$@" >&2; printf '\036' >&2; return 0; }
exec() { "$@"; }; cd() { :; }; pushd() { :; }; popd() { :; }; source() { :; }; kill() { :; }; wait() { :; }; trap() { :; }
exit() { builtin exit 0; }
ulimit -t 10; set() { case "$1" in --) shift; builtin set -- "$@";; esac; }; shopt() { :; }
enable -n kill history fc; readonly PATH=/nowhere; builtin set -r
"""
_REDIRECTED = re.compile(r"\s(?:\d?>&\d|&?\d?>{1,2}\s*(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;|&)]+))")
_WORD = r"(?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\$\([^)]*\)|\\.|[^\s;|&)\"'\\])+"
_PIPED = re.compile(rf"\|&?\s*(?:tee|ts|grep|sed)\b(?:[ \t]+{_WORD})*")
_PATH = re.compile(r"(?<!\w)PATH(?=\+?=)")  # its own search path would end the script: the mode refuses it
_PROGRAM = re.compile(
    r"(?<![\w$=:/])[\w./~${}:-]*/((?:python|accelerate|torchrun|deepspeed|trl|uv|srun)[\d.]*)(?=\s)"
)


def commands_of(text: str, path: Path, variables: Mapping[str, str]) -> list[list[str]]:
    """Return the words of every command that a script would run.

    Raises:
        ConfigError: there is no bash, or the script cannot be expanded.
    """
    bash = shutil.which("bash")
    if bash is None:
        raise ConfigError(f"reading {path} needs bash, which is not on the PATH")
    script = _PROGRAM.sub(r"\1", _PIPED.sub("", _REDIRECTED.sub(" ", _PATH.sub("_PATH", text))))
    arguments = [variables.get(f"{place}", "") for place in range(1, 10)]
    while arguments and not arguments[-1]:
        arguments.pop()
    environment = {
        "HOME": os.environ.get("HOME", "~"),
        "USER": os.environ.get("USER", "user"),
        "PATH": "/nowhere",
        **dict.fromkeys(
            ("SLURM_PROCID", "SLURM_NODEID", "NODE_RANK", "RANK"), "0"
        ),  # the first process is the one that trains
    } | dict(variables)
    try:
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-s", "--", *arguments], input=(_PREAMBLE + script).encode(), env=environment,
            cwd=path.resolve().parent, capture_output=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        said, printed, ended = done.stderr, done.stdout, True
    except subprocess.TimeoutExpired as error:  # what it said until then may hold its training
        said, printed, ended = error.stderr or b"", b"", False
    *records, rest = said.decode(errors="replace").split("\036")
    commands = []
    for record in records:
        head, *words = record.split("\037")[:-1] or [""]
        commands.append([head.rpartition("\n")[2], *words])  # bash's own messages stand on lines before
    for inner in [text for words in commands if (text := inner_script(words))]:
        with contextlib.suppress(ConfigError):  # it may be another one that trains
            commands += commands_of(inner, path, variables)
    if any(len(words) > _FEW for words in commands):
        return commands
    if not ended:
        raise ConfigError(
            f"{path} goes on for more than {_SECONDS} s without its programs; give its settings alone"
        )
    stopped = (
        re.findall(r"line \d+: (\w+: .*)", rest) or printed.decode(errors="replace").strip().splitlines()
    )
    if stopped:
        raise ConfigError(f"{path} stops with {stopped[-1][:200]!r}; give what it wants as NAME=VALUE")
    return commands


def inner_script(words: list[str]) -> str:
    """Return the script of `... bash -c SCRIPT`, which srun, containers and ray are given; else nothing."""
    shells = [at for at, word in enumerate(words[:-2]) if word.rpartition("/")[2] in ("bash", "sh")]
    return next((words[at + 2] for at in shells if re.fullmatch(r"-\w*c", words[at + 1])), "")
