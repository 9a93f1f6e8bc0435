"""`python -m harness`."""

import sys

from harness.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
