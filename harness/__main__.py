"""`python -m harness`."""

import importlib.util
import sys

from harness.cli import entry

if __name__ == "__main__":
    shadow = importlib.util.find_spec("analysis")
    # This folder comes first on the path.
    if shadow is not None and shadow.submodule_search_locations is None:
        sys.exit(
            f"{shadow.origin} has the name of a package of harness and hides it; rename it, or run `harness` instead of `python -m harness`"
        )
    entry()
