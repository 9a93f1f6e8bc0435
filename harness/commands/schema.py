"""Print the JSON schema of what a verb answers with --json; without a verb, the verbs that do.

harness schema
harness schema plan
"""

from __future__ import annotations

import argparse
import json

from harness.commands._as_json import answering_verbs, schema_of
from harness.configuration.error import ConfigError, nearest

ARGUMENTS = {"verb": {"nargs": "?", "help": "such as plan"}}


def run(options: argparse.Namespace) -> int:
    verbs = dict(answering_verbs())
    if options.verb is None:
        print("\n".join(verbs))
        return 0
    if options.verb not in verbs:
        raise ConfigError(f"{options.verb!r} has no --json{nearest(options.verb, list(verbs))}")
    print(json.dumps(schema_of(options.verb, verbs[options.verb]), indent=1))
    return 0
