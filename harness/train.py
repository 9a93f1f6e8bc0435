"""`python -m harness.train OVERRIDES`: the Hydra application, which `harness run` is, too."""

from __future__ import annotations

import os
import sys

from harness.commands._application import application, main, train

__all__ = ["application", "main", "train"]

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "harness", "run", *sys.argv[1:]])
