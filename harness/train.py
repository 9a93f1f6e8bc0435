"""`python -m harness.train OVERRIDES`: the Hydra application, which `harness run` is, too."""

import os
import sys

if __name__ == "__main__":
    os.execv(sys.executable, [sys.executable, "-m", "harness", "run", *sys.argv[1:]])
