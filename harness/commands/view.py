"""Watch experiments in a browser while they run: progress, table and curves so far, samples. Never writes into the store.

harness view                              all experiments of the store, on http://127.0.0.1:8000/
harness view experiment=NAME port=8123    one of them; port=0 takes a free port and prints it

Only this machine can connect; from another one: ssh -L 8000:127.0.0.1:8000 HOST. Ctrl-C ends it, and no run.
"""

from __future__ import annotations

import argparse
import errno

from harness.commands._arguments import select
from harness.configuration.error import ConfigError

_PORT, _MOST_PORT = 8000, 65535


ARGUMENTS = {"overrides": {"nargs": "*", "help": "[experiment=NAME] [port=8000] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 0 after an interrupt."""
    given = [item.partition("=")[2] for item in options.overrides if item.startswith("port=")]
    selection = select([item for item in options.overrides if not item.startswith("port=")])
    if len(given) > 1 or len(selection.experiments) > 1:
        raise ConfigError("name one port and one experiment at most: harness view experiment=NAME port=8000")
    port = _port(given[0]) if given else _PORT
    from analysis.view.server import serve

    try:
        serve(selection.store.root, selection.experiments[0] if selection.experiments else None, port)
    except OSError as error:
        raise ConfigError(_refused(port, error)) from error
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_PORT):
        raise ConfigError(f"port={text} is no port: a number up to {_MOST_PORT}, or 0 for any free one")
    return int(text)


def _refused(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken; choose another with port={port + 1}, or port=0 for any free one"
    return f"port {port} cannot be had ({error.strerror}); choose another with port={_PORT}, or port=0 for any free one"
