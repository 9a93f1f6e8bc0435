"""The command line: `harness <verb> [arguments]`. Every verb is one module under `harness.commands`."""

import argparse
import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from harness import __version__
from harness.commands._arguments import FAMILY, Exit, VerbAnswer, to_json
from harness.configuration.compose import config_dir
from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member, nearest
from harness.store import StoreError
from harness.store.foreign_text import VisibleStream, escape_json

_SUMMARY = (
    "Ablations for reinforcement learning with verifiable rewards: declare arms and seeds, run them, read the answer."
)
_FIRST_STEPS = (
    "To begin: harness plan experiment=dapo_ladder, then run, status, view, report. `harness VERB --help` has examples."
)

_OTHERS = "Your own results and models"
_GROUPS = {
    "Begin": ["new", "plan", "run", "view", "report"],
    "Look": ["status", "explain", "keys", "doctor"],
    "Share": ["pack", "merge"],
    _OTHERS: ["judge", "compare", "evaluate", "translate"],
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code (`Exit`). Errors with a known cause are one line on standard error, code 2.

    What it prints goes through `VisibleStream`: a file's text reaches the terminal without control characters.
    """
    out, errors = (cast(TextIO, VisibleStream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verbs = kinds(FAMILY)
    if arguments[:1] == ["-sc"]:  # the shell asks the program, not a verb, what comes next
        arguments.insert(0, "run")
        os.environ["COMP_LINE"] = os.environ.get("COMP_LINE", "").replace(" run ", " ", 1)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        print(f"harness: no verb {arguments[0]!r}{nearest(arguments[0], list(verbs))}", file=sys.stderr)
        return Exit.REFUSED
    if not arguments or arguments[0] not in verbs:
        _overview(verbs).parse_args(arguments)
        return Exit.REFUSED
    verb, *items = arguments
    module = member(FAMILY, verb)
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(prog=f"harness {verb}", description=_fitting(module.__doc__ or ""), formatter_class=layout)
    hydra = getattr(module, "HYDRA", False)
    for names, settings in {} if hydra else module.ARGUMENTS.items():
        parser.add_argument(*names.split(), **settings)
    if hasattr(module, "Answer"):
        parser.add_argument("--json", action="store_true", help="print the answer as JSON (docs/commands.md)")
    parser.add_argument(
        "--config-dir",
        "-cd",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder of your own files",
    )
    if hydra:  # argparse reads Hydra's `-c` as the beginning of `-cd`
        items = ["--cfg" if item == "-c" else item for item in items]
    # Flags may stand between overrides. Hydra reads what else its application is given.
    options, rest = parser.parse_known_args(items) if hydra else (parser.parse_intermixed_args(items), [])
    try:
        with config_dir(*options.config_dir):
            return _train(rest) if hydra else _carry_out(module, options)
    except (ConfigError, StoreError) as error:
        print(f"harness {verb}: {error}", file=sys.stderr)
        if vars(options).get("json"):
            print(escape_json(json.dumps({"error": str(error)}, ensure_ascii=False)))
        return Exit.REFUSED
    except KeyboardInterrupt:
        print(f"harness {verb}: interrupted; what is written stays", file=sys.stderr)
        return Exit.INTERRUPTED


def _train(arguments: list[str]) -> int:
    from harness.train import main as train

    return train(arguments)


def _carry_out(module: Any, options: argparse.Namespace) -> int:
    """Run a verb that acts; of one that answers show the answer, or print it as JSON and nothing else on standard output."""
    if not hasattr(module, "Answer"):
        return int(module.run(options))
    if not options.json:
        answer: VerbAnswer = module.answer(options)
        module.show(answer, options)
        return answer.exit_code
    with contextlib.redirect_stdout(sys.stderr):
        answer = module.answer(options)
    print(to_json(answer))
    return answer.exit_code


def entry() -> NoReturn:
    """Run the `harness` program; a reader that stops reading (`harness status | head`) ends it quietly."""
    try:
        try:
            sys.exit(main())
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.CUT_OFF)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as those of every other wrong argument."""

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.REFUSED, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _fitting(text: str) -> str:
    """A verb's text at the terminal's width: commands line by line, closer to what they do where they are too long."""
    width, lines = shutil.get_terminal_size((80, 24)).columns, list[str]()
    for part in text.strip().split("\n\n"):
        indent = "    " * part.startswith("harness ")
        wrap = textwrap.TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        for one in part.splitlines() if indent else [part]:
            lines.append(wrap.fill(one if len(one) <= width else re.sub("   +", "   ", one)))
        lines.append("")
    return "\n".join(lines).rstrip()


def _first_line(verb: str) -> str:
    source = importlib.util.find_spec(kinds(FAMILY)[verb])
    assert source is not None
    assert source.origin is not None
    text = ast.get_docstring(ast.parse(Path(source.origin).read_text(encoding="utf-8"))) or verb
    return text.splitlines()[0]


def _overview(verbs: Iterable[str]) -> argparse.ArgumentParser:
    """Make the parser of `harness --help`: every verb with its first line, read from the sources since importing all of them takes long."""
    width = shutil.get_terminal_size((80, 24)).columns
    groups = {name: [verb for verb in group if verb in verbs] for name, group in _GROUPS.items()}
    groups[_OTHERS] += sorted(set(verbs).difference(*_GROUPS.values()))
    parts = [textwrap.fill(_SUMMARY, width)]
    for name, group in groups.items():
        lines = (
            textwrap.fill(_first_line(verb), width, initial_indent=f"  {verb:<10}", subsequent_indent=" " * 12)
            for verb in group
        )
        parts.append("\n".join([f"{name}:", *lines]))
    parser = _Parser(
        prog="harness",
        usage="harness VERB [arguments]",
        description="\n\n".join(parts),
        epilog=textwrap.fill(_FIRST_STEPS, width),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("verb", help=argparse.SUPPRESS)
    return parser
