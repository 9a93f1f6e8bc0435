"""Compare what is read from other trainers' logs with what stands in them, found without the importers:

    python tests/benchmarks/log_totals.py LOG ...

Of each log: the lines with a reward, the last step that the importer has, and the sums of rewards and of mean lengths, read and found.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness.exchange.importers._format import format_of
from harness.exchange.importers._store import Import, read_log

REWARD = r"""["'\s](?:reward|critic/score/mean)["']?: ?'?(-?[\d.e-]+)"""
LENGTHS = [
    rf"""["'\s]{name}["']?: ?'?([\d.e-]+)"""
    for name in ("completions/mean_length", "completion_length", "response_length/mean")
]

for path in map(Path, sys.argv[1:]):
    kind = format_of(path)
    rows = read_log(Import(path, "", "", 0), kind).rows()
    rewards = [row["reward_mean"] for row in rows if "reward_mean" in row]
    lengths = [row["response_tokens_mean"] for row in rows if "response_tokens_mean" in row]
    text = path.read_text(errors="replace")
    length = next(
        (pattern for pattern in LENGTHS if re.search(pattern, text)), LENGTHS[0]
    )  # Unsloth logs two
    found = [[float(value) for value in re.findall(pattern, text)] for pattern in (REWARD, length)]
    agree = all(
        len(read) == len(own) and abs(sum(read) - sum(own)) < 1e-9 * len(read)
        for read, own in zip((rewards, lengths), found, strict=True)
    )
    print(
        f"{path}: {kind}, {len(rewards)} lines of {len(found[0])} to step {rows[-1]['step']}, rewards {sum(rewards):.6f} of "
        f"{sum(found[0]):.6f}, lengths {sum(lengths):.3f} of {sum(found[1]):.3f}: {'agree' if agree else 'DIFFER'}"
    )
