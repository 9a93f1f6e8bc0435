"""``python -m analysis.view ROOT``: serve the pages of a results root to this machine until interrupted (see `harness view`)."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from pathlib import Path

from analysis.view.server import ADDRESS, PageServer
from analysis.view.watch import Watch

_NICENESS = 10  # runs on the same cores come first


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 after an interrupt, 2 with one line on standard error where the port cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m analysis.view", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("--experiment", help="serve this one alone; default: all that the root holds")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one, which is printed")
    options = parser.parse_args(arguments)
    try:
        server = PageServer(Watch(options.root, options.experiment), options.port)
    except OSError as error:
        sys.stderr.write(f"harness view: {_refused(options.port, error)}\n")
        return 2
    os.nice(_NICENESS)
    signal.signal(signal.SIGTERM, _interrupt)
    with server:
        port = server.server_address[1]
        print(f"http://{ADDRESS}:{port}/{options.experiment or ''} (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)  # the terminal has written ^C
    return 0


def _refused(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken; choose another with port={port + 1}, or port=0 for any free one"
    return f"port {port} cannot be had ({error.strerror}); choose another with port=8000, or port=0 for any free one"


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
