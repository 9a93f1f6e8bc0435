"""Watch experiments in a browser while they run: progress, table and curves so far, samples. Never writes into the store.

harness view                              all experiments of the store, on http://127.0.0.1:8000/
harness view experiment=NAME port=8123    prints the address of one; port=0 takes a free port
harness view token=true                   for a machine with other users: only who knows the printed address sees anything

Only this machine can connect, every user of it; from another one: ssh -L 8000:127.0.0.1:8000 HOST. Ctrl-C ends it, and no run.
"""

import argparse
import os
import secrets
import signal
from contextlib import suppress

from harness.commands._arguments import select, take_switch, take_values
from harness.configuration.error import ConfigError

_PORT, _MOST_PORT = 8000, 65535
_NICENESS = 10  # runs on the same cores come first
ARGUMENTS = {"overrides": {"nargs": "*", "help": "[experiment=NAME] [port=8000] [token=true] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    values, rest = take_values(options.overrides, ("port", "token"), "view")
    has_token, port, selection = take_switch(values, "token"), values.get("port", _PORT), select(rest)
    if len(selection.experiments) > 1:
        raise ConfigError("name one experiment at most: harness view experiment=NAME")
    if type(port) is not int or not 0 <= port <= _MOST_PORT:
        raise ConfigError(f"port={port} is no port: a number up to {_MOST_PORT}, or 0 for any free one")
    from harness.commands._server import ADDRESS, Server

    try:
        server = Server(selection.store.root, port, secrets.token_urlsafe() if has_token else "")
    except OSError as error:
        raise ConfigError(f"port={port} cannot be had ({error.strerror}); port=0 takes any free one") from error
    with server, suppress(KeyboardInterrupt):
        os.nice(_NICENESS)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        name = "".join(selection.experiments)
        print(f"http://{ADDRESS}:{server.server_port}{server.prefix}{name} (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return 0
