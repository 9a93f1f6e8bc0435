"""Put results of other machines into this results root: their folders, or packs of `harness pack`.

harness merge /mnt/other/results NAME.tar.xz s3://bucket/NAME.tar.xz
harness merge NAME.tar.xz runtime.results=DIR

What finished is never overwritten: a run that finished in both places with different results is named, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys

from harness.commands._arguments import Exit, select
from harness.configuration.error import ConfigError
from harness.configuration.numbers import format_count
from harness.configuration.sections import of_machine
from harness.store import StoreError
from harness.store.pack import merge, open_root

ARGUMENTS = {"sources": {"nargs": "+", "help": "ROOT_OR_PACK ... [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    sources = [item for item in options.sources if not of_machine(item)]
    if not sources:
        raise ConfigError("name a folder of results or a pack: harness merge ROOT_OR_PACK")
    store = select([item for item in options.sources if of_machine(item)]).store
    conflicts: list[str] = []
    for source in sources:
        try:
            with open_root(source) as root:
                result = merge(store, root)
                evaluations = root / "evaluations"
                if evaluations.is_dir():
                    result.notes.append(f"{evaluations} stays there: copy what you need of it")
        except StoreError as error:
            conflicts.append(str(error))
            continue
        print(f"{source}: {format_count(result.new, 'new run')}, {result.same} that were here")
        for line in result.notes:
            print(f"  {line}")
        conflicts += result.conflicts
    for line in conflicts:
        print(f"harness merge: {line}", file=sys.stderr)
    return Exit.FOUND if conflicts else Exit.DONE
