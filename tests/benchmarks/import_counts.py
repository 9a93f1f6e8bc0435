"""Count what `harness import` makes of a folder of other people's configurations:

    python tests/benchmarks/import_counts.py trl FOLDER [rows=1000 ...]
    python tests/benchmarks/import_counts.py verl LIST.txt

Every .yaml, .toml, .sh and .py file below the folder, or of the list, is imported by itself with the arguments that follow. complete: all
settings have counterparts; named: a translation, with lines under "changes the method"; refused: an error that names what cannot be; wrong:
else. The reasons are counted without their values. With follow=true an import that is refused is tried again as its message says: with the
section or the first of the commands that it names, and with eight devices where the batch makes no whole groups on one.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from harness.commands.export import FAMILY
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.registry import member

command = __import__("harness.commands.import", fromlist=["translate"])
SUFFIXES = (".yaml", ".yml", ".toml", ".sh", ".py")


_ADVICE = {
    r"give (section=[\w.]+)": r"\1",
    r"choose with command=N": "command=1",
    r"give devices=N": "devices=8",
}


def followed(dialect: str, path: Path, more: list[str]) -> tuple[str, list[str]]:
    """Say what becomes of a file whose errors' advice is followed."""
    word, lines = outcome(dialect, path, more)
    for advice, item in _ADVICE.items():
        found = re.search(advice, lines[0]) if word == "refused" else None
        if found and found.expand(item) not in more:
            return followed(dialect, path, [*more, found.expand(item)])
    return word, lines


def outcome(dialect: str, path: Path, more: list[str]) -> tuple[str, list[str]]:
    """Say what becomes of a file, and the reasons."""
    try:
        found, _ = command.translate(dialect, member(FAMILY, dialect), [f"file={path}", *more])
        compose_run(found.overrides())
    except ConfigError as error:
        return "refused", [str(error).replace(str(path), "FILE")]
    except Exception as error:  # what this script looks for
        return "wrong", [f"{type(error).__name__}: {error}"]
    return ("named", found.inexpressible) if found.inexpressible else ("complete", [])


if __name__ == "__main__":
    dialect, folder, *more = sys.argv[1:]
    judge = followed if "follow=true" in more else outcome
    more = [item for item in more if item != "follow=true"]
    outcomes: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    below = (file for file in Path(folder).rglob("*") if file.suffix in SUFFIXES and file.name != "setup.py")
    listed = map(Path, Path(folder).read_text().splitlines()) if Path(folder).is_file() else sorted(below)
    for path in listed:
        word, lines = judge(dialect, path, more)
        outcomes[word] += 1
        reasons[word].update({re.sub(r"\d[\d.e+-]*", "N", line)[:150] for line in lines})
        print(word, path, *lines[:1], sep="\t")
    print(dict(outcomes), "of", sum(outcomes.values()))
    for word, counted in reasons.items():
        for reason, number in counted.most_common(25):
            print(f"{word}\t{number}\t{reason}")
