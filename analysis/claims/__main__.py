"""``python -m analysis.claims ROOT [CLAIM ...]``: judge declared claims by their experiments; one page, one table, one figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.claims.judged import all_judged


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 where there is no claim to judge."""
    parser = argparse.ArgumentParser(prog="python -m analysis.claims", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("claims", nargs="*", help="names of claims; none: all that have been run")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder to write to; by default ROOT/claims, whose table and figure of all claims stay as they are where some are named",
    )
    options = parser.parse_args(arguments)
    found, unread = all_judged(options.root, [f"claim_{name}" for name in options.claims])
    sys.stderr.writelines(f"{line}\n" for line in unread)
    if not found:
        sys.stderr.write(
            f"{options.root} holds no claim that has been run; run one with: harness audit claim=all\n"
        )
        return 2
    from analysis.claims.pages import in_words, write_overview, write_pages  # matplotlib

    out = options.out or options.root / "claims"
    sys.stdout.write(in_words(found))
    write_pages(found, out)
    if options.claims and options.out is None:
        pages = ", ".join(f"{one.name}.md" for one in found)
        sys.stdout.write(
            f"written: {out}: {pages} (table and figure of all: harness audit claim=all --judge)\n"
        )
    else:
        write_overview(found, out)
        sys.stdout.write(f"written: {out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
