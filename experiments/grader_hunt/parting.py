"""Rewards that pay a policy for parting the two graders, and the classes of answers that did.

    python experiments/grader_hunt/parting.py results grader_hunt_words      # classes of all finished runs, the most frequent first

`too_kind_*` pays where this harness's verifier takes an answer that neither the second grader nor a plain reading confirms,
`too_strict_any` where both confirm what it refuses. The plain reading is the last box, else the number of the last answer line, else the
number behind the last `is`, `=` or the like. A class is an answer with its gold value written as V and other numbers as N.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from harness.verify import MathVerifier, VerifierConfig

_READINGS = [
    re.compile(pattern)
    for pattern in (
        r"\\boxed\{\s*(-?\d+)\s*\}",
        r"(?:Answer:|#### |[Aa]nswer (?:to [^.]* )?is)[\s$*]*(-?\d+)",
        r"(?:\b(?:is|are|equals|makes|to|it|get|wait|actually|mean|rather)\b[\s,]*|=\s*|^)[\s$*(]*(-?\d+)(?!\d)",
    )
]


def too_kind_any(response: str, gold: str) -> bool:
    """Pay for answers that only the verifier takes, `verifier=any`."""
    return _parted("any", response, gold, kind=True)


def too_kind_answer_line(response: str, gold: str) -> bool:
    """Pay for answers that only the verifier takes, `verifier=answer_line`."""
    return _parted("answer_line", response, gold, kind=True)


def too_kind_boxed(response: str, gold: str) -> bool:
    """Pay for answers that only the verifier takes, `verifier=boxed`."""
    return _parted("boxed", response, gold, kind=True)


def too_strict_any(response: str, gold: str) -> bool:
    """Pay for answers that only the verifier refuses, `verifier=any`."""
    return _parted("any", response, gold, kind=False)


def _parted(extraction: str, response: str, gold: str, kind: bool) -> bool:
    graders = _graders(extraction)
    first, second = graders.verify(response, gold).correct, graders.second_many([(response, gold)])[0]
    readings = next(filter(None, (pattern.findall(response) for pattern in _READINGS)), None)
    confirmed = readings is not None and readings[-1] == gold
    return (first and not second and not confirmed) if kind else (not first and second is True and confirmed)


@cache
def _graders(extraction: str) -> MathVerifier:
    return MathVerifier(VerifierConfig(extraction=extraction))


def masked(text: str, gold: str) -> str:
    """Return the class of an answer: V for its gold value, N for other numbers."""
    return re.sub(r"\d+", lambda match: "V" if match[0] == gold else "N", text)


def main() -> None:
    """Print classes with the number of answers, the arms that found them, and an example."""
    sys.path.insert(0, str(Path(__file__).parent))
    from divergences import answers

    from harness.store import ResultStore

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("experiment")
    parser.add_argument("--most", type=int, default=60)
    wanted = parser.parse_args()
    store = ResultStore(wanted.results)
    with MathVerifier(VerifierConfig(extraction="any")) as verifier:
        for arm in store.plan(wanted.experiment)["arms"]:
            counts, examples = Counter[str](), defaultdict[str, str](str)
            runs = [store.run(run_id) for run_id in arm["runs"].values()]
            finished = [run for run in runs if run.status == "finished"]
            for one in (one for run in finished for one in answers(run, verifier)):
                if one.rewarded:
                    name = masked(one.text, one.gold)
                    counts[name] += 1
                    examples[name] = f"{one.text!r} for {one.gold}"
            print(f"{arm['label']}: {len(finished)} runs, {counts.total()} answers, {len(counts)} classes")
            for name, count in counts.most_common(wanted.most):
                print(f"  {count:6} {name!r}: {examples[name]}")


if __name__ == "__main__":
    main()
