"""The command line: `harness <verb> [arguments]`. Every verb is one module under `harness.commands`."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from harness import __version__
from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member, nearest
from harness.store import StoreError

_FAMILY = "harness.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code. Errors with a known cause are one line on standard error, code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verbs = kinds(_FAMILY)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        print(f"harness: no verb {arguments[0]!r}{nearest(arguments[0], list(verbs))}", file=sys.stderr)
        return 2
    if arguments and arguments[0] in verbs:
        verb = arguments[0]
        module = member(_FAMILY, verb)
        parser = _verb_parser(verb, (module.__doc__ or "").strip())
        for names, settings in module.ARGUMENTS.items():
            parser.add_argument(*names.split(), **settings)
        # Flags may stand between overrides, as in `harness sweep KEY=... --trials 4 KEY=...`.
        options = parser.parse_intermixed_args(arguments[1:])
    else:
        _overview(verbs).parse_args(arguments)
        return 2
    try:
        return int(module.run(options))
    except (ConfigError, StoreError) as error:
        print(f"harness {verb}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"harness {verb}: interrupted; what is written stays", file=sys.stderr)
        return 128 + signal.SIGINT


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
        sys.exit(128 + signal.SIGPIPE)


def _verb_parser(verb: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=f"harness {verb}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _first_line(verb: str) -> str:
    source = importlib.util.find_spec(f"{_FAMILY}.{verb}")
    assert source is not None
    assert source.origin is not None
    text = ast.get_docstring(ast.parse(Path(source.origin).read_text(encoding="utf-8"))) or verb
    return text.splitlines()[0]


def _overview(verbs: Iterable[str]) -> argparse.ArgumentParser:
    """Make the parser of `harness --help`: every verb with its first line, read from the sources since importing all of them takes long."""
    parser = argparse.ArgumentParser(prog="harness", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="verb")
    for verb in sorted(verbs):
        subparsers.add_parser(verb, help=_first_line(verb))
    return parser
