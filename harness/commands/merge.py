"""Put results of other machines into this results root: their folders, or what `harness pack` wrote.

harness merge /mnt/other/results NAME.tar.xz [runtime.results=DIR]

What finished is never overwritten: a run that finished in both places with different results is named, and the exit code is 1.
"""

import argparse
import sys
from pathlib import Path

from harness.commands._arguments import Exit, select
from harness.configuration.numbers import format_count
from harness.configuration.sections import of_machine
from harness.store import StoreError
from harness.store.pack import merge

ARGUMENTS = {"sources": {"nargs": "+", "help": "ROOT_OR_PACK ... [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    store, code = select([item for item in options.sources if of_machine(item)]).store, Exit.DONE
    for source in options.sources:
        if not of_machine(source):
            try:
                new, left = merge(store, Path(source))
                print(f"{source}: {format_count(new, 'new run')}")
            except StoreError as error:
                left = [str(error)]
            for line in left:
                print(f"harness merge: {line}", file=sys.stderr)
                code = Exit.FOUND
    return code
