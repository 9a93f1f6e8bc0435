"""The command line: `harness <verb> [arguments]`. Every verb is one module under `harness.commands`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from harness import __version__
from harness.config_error import ConfigError
from harness.registry import kinds, member, nearest
from harness.store import StoreError

_FAMILY = "harness.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Errors with a known cause are one line on standard error, code 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    verbs = kinds(_FAMILY)
    if arguments and not arguments[0].startswith("-") and arguments[0] not in verbs:
        print(f"harness: no verb {arguments[0]!r}{nearest(arguments[0], list(verbs))}", file=sys.stderr)
        return 2
    parser = argparse.ArgumentParser(prog="harness", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--version", action="version", version=__version__)
    subparsers = parser.add_subparsers(dest="verb", required=True, metavar="verb")
    # Only the verb that runs is imported; the overview needs all of them.
    wanted = [arguments[0]] if arguments and arguments[0] in verbs else sorted(verbs)
    for verb in wanted:
        module = member(_FAMILY, verb)
        description = (module.__doc__ or "").strip()
        sub = subparsers.add_parser(
            verb,
            help=description.splitlines()[0],
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(sub)
        sub.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except (ConfigError, StoreError) as error:
        print(f"harness {options.verb}: {error}", file=sys.stderr)
        return 2
