"""Build a peer's own environment under the user's cache: python tests/parity/build_peer.py verl

Prints the interpreter's path. The parity tests find it there; RLVR_PEERS names another folder. Nothing of it enters this project's own
environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENTS = {
    # The last six are of its extra verl-core, whose others need CUDA: its trainer gets as far as asking for GPUs.
    "verl": [
        "torch==2.13.0", "transformers<5.11", "accelerate", "verl==0.9.1", "orjson", "TransferQueue>=0.1.10", "cachetools", "fastapi",
        "uvicorn", "pyzmq", "msgspec",
    ],
}  # fmt: skip


def interpreter(peer: str) -> Path:
    """Where the peer's Python is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    root = Path(os.environ.get("RLVR_PEERS", Path(cache) / "rlvr-harness" / "peers"))
    return root / peer / "bin" / "python"


def ready(peer: str) -> bool:
    """Whether the peer's environment was built to the end."""
    return (interpreter(peer).parents[1] / "ready").exists()


def build(peer: str) -> Path:
    """Create the environment; a finished one is left alone, a half-built one finished.

    Raises:
        CalledProcessError: the package index has not what it needs.
    """
    python = interpreter(peer)
    if ready(peer):
        return python
    python.parents[2].mkdir(parents=True, exist_ok=True)
    venv.create(python.parents[1], with_pip=True)
    # One at a time: torch first, so that its processor-only wheel is not replaced by the resolver's choice.
    for requirement in REQUIREMENTS[peer]:
        subprocess.run([str(python), "-m", "pip", "install", "-q", requirement], check=True, cwd=python.parents[1])
    (python.parents[1] / "ready").touch()
    return python


if __name__ == "__main__":
    sys.stdout.write(f"{build(sys.argv[1])}\n")
