"""Processor time of the verifier's symbolic cases, which the load of the machine changes far less than elapsed time.

    python tests/benchmarks/verify_cpu.py

Grades tests/verify/peer_cases.jsonl with one worker and prints the cases that reached it, the processor seconds of the worker
and its template (start included), and the verdicts.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from pathlib import Path

from harness.verify import MathVerifier, VerifierConfig

CASES = Path(__file__).parents[1] / "verify" / "peer_cases.jsonl"


def main() -> None:
    """Prints one line."""
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    with MathVerifier(VerifierConfig(extraction="any", workers=1)) as verifier:
        verdicts = verifier.verify_many([(case["response"], case["gold"]) for case in cases])
        graded = verifier.pool.counts.graded
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = ", ".join(
        f"{count} {name}" for name, count in Counter(verdict.verdict for verdict in verdicts).most_common()
    )
    sys.stdout.write(
        f"{graded} of {len(cases)} cases graded by a worker in {used.ru_utime + used.ru_stime:.1f} processor seconds: {counts}\n"
    )


if __name__ == "__main__":
    main()
