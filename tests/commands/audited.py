"""Ask verbs in one process that writes down what it opens, connects to, starts and imports: audited.py LOG COMMANDS.json.

What stands before the command `python -m harness` is asked as `harness`: without the folder where it is asked on the path of modules.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any

WATCHED = {
    "open", "os.listdir", "os.rename", "os.remove", "os.symlink", "os.link", "os.mkdir", "os.system",
    "socket.connect", "socket.getaddrinfo", "pickle.find_class", "import",
}  # fmt: skip

AS_MODULE = ["python", "-m", "harness"]


def main(log: int, verbs: list[list[str]]) -> None:
    """Print the arguments of each verb, its exit code and its words."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in WATCHED and not (event == "open" and isinstance(arguments[0], int)):
            texts = [os.fsdecode(one) if isinstance(one, bytes | os.PathLike) else str(one) for one in arguments[:2]]
            os.write(log, (json.dumps([event, *texts]) + "\n").encode())

    sys.addaudithook(watch)
    from harness.cli import main as harness

    said = []
    for arguments in verbs:
        if arguments == AS_MODULE:
            sys.path.append(os.getcwd())
            os.environ["PYTHONPATH"] += os.pathsep + os.getcwd()
            continue
        os.write(log, (json.dumps(["verb", *arguments]) + "\n").encode())
        sys.argv = ["harness", *arguments]
        out = io.StringIO()
        with contextlib.ExitStack() as stack:
            if arguments[0] != "view":  # whose address is read while it goes on
                stack.enter_context(contextlib.redirect_stdout(out))
                stack.enter_context(contextlib.redirect_stderr(out))
            try:
                code: Any = harness(arguments)
            except SystemExit as error:
                code = error.code
        said.append([arguments, int(code), out.getvalue()])
    print(json.dumps(said))


if __name__ == "__main__":  # a worker imports this file again
    with open(sys.argv[2], encoding="utf-8") as file:
        commands = json.load(file)
    main(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND), commands)
