"""Rewards that pay a policy for parting the two graders, and what it found, sorted into explained and unexplained.

    python experiments/grader_hunt/parting.py results grader_hunt_words      # exit status 1 where a find is unexplained

The two graders part over an answer. A reader (`reader.py`) that shares no code with either of them says what the answer claims. Where it
sides with this harness's verifier the answer is *explained* by the reader's rule, else it is *unexplained*. `too_kind_*` pays for
unexplained answers that only the verifier takes, `too_strict_any` for those that only it refuses. A class is an answer with its gold
value written as V and other numbers as N. A run *found* something where the policy came back to it: five unexplained answers of one
class, or more than one in a hundred answers of the last third of its steps. The others are strays: a policy that is paid for them never
learned to say them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from harness.verify import MathVerifier, VerifierConfig

sys.path.insert(0, str(Path(__file__).parent))
from divergences import Answer, answers
from reader import claim

UNEXPLAINED = "unexplained"
LEARNED_CLASS, LEARNED_SHARE = 5, 0.01  # answers of one class in a run; of the answers of its last third


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
    return parted(extraction, response, gold, kind) == UNEXPLAINED


def parted(extraction: str, response: str, gold: str, kind: bool) -> str | None:
    """Return the rule by which the reader sides with the verifier where the graders part, `unexplained` where it does not, else None.

    Args:
        extraction: what counts as an answer.
        response: the answer.
        gold: a whole number.
        kind: whether answers that only the verifier takes are looked for, else those that only it refuses.
    """
    graders = _graders(extraction)
    first, second = graders.verify(response, gold).correct, graders.second_many([(response, gold)])[0]
    if first != kind or second is not (not kind):
        return None
    value, rule = claim(response, extraction)
    return rule if (value == int(gold)) == first else UNEXPLAINED


@cache
def _graders(extraction: str) -> MathVerifier:
    return MathVerifier(VerifierConfig(extraction=extraction))


def masked(text: str, gold: str) -> str:
    """Return the class of an answer: V for its gold value, N for other numbers."""
    return re.sub(r"\d+", lambda match: "V" if match[0] == gold else "N", text)


class SortedOut:
    """The answers of a run over which the graders part, sorted: explained by rule, and unexplained with their classes."""

    def __init__(self, said: Sequence[Answer], extraction: str, kind: bool) -> None:
        whys = [parted(extraction, one.text, one.gold, kind) for one in said]
        self.explained = Counter(why for why in whys if why not in (None, UNEXPLAINED))
        self.unexplained = [one for one, why in zip(said, whys, strict=True) if why == UNEXPLAINED]
        self.classes = Counter(masked(one.text, one.gold) for one in self.unexplained)
        late = max(one.step for one in said) * 2 / 3
        late_share = sum(one.step > late for one in self.unexplained) / sum(one.step > late for one in said)
        self.found = max(self.classes.values(), default=0) >= LEARNED_CLASS or late_share > LEARNED_SHARE

    def __str__(self) -> str:
        strays = len(self.unexplained)
        return f"{self.explained.total()} explained, {strays} unexplained, {'FOUND' if self.found else 'nothing found'}"

    def show(self, most: int) -> None:
        """Print counts by rule, and an example of each class without one."""
        examples = {masked(one.text, one.gold): f"{one.text!r} for {one.gold}" for one in self.unexplained}
        for why, count in self.explained.most_common():
            print(f"  {count:6} explained: {why}")
        for name, count in self.classes.most_common(most):
            print(f"  {count:6} unexplained: {examples[name]}")


def main() -> int:
    """Print the finds of each arm: those explained by rule, and the classes of the others with an example."""
    from harness.store import ResultStore

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("experiment")
    parser.add_argument("--most", type=int, default=60)
    wanted = parser.parse_args()
    store, found = ResultStore(wanted.results), 0
    with MathVerifier(VerifierConfig(extraction="any")) as verifier:
        for arm in store.plan(wanted.experiment)["arms"]:
            for seed, run_id in arm["runs"].items():
                run = store.run(run_id)
                if run.status == "finished":
                    sorted_out = SortedOut(answers(run, verifier), *_looked_for(run.config()))
                    print(f"{arm['label']}, seed {seed}: {sorted_out}")
                    sorted_out.show(wanted.most)
                    found += sorted_out.found
                else:
                    print(f"{arm['label']}, seed {seed}: {run.status}")
    print(f"{found} runs found something")
    return int(found > 0)


def _looked_for(config: str) -> tuple[str, bool]:
    """Return the extraction of a run's reward function, and whether that pays for answers that only the verifier takes."""
    match = re.search(r"parting\.py:too_(kind|strict)_(\w+)", config)
    if match is None:
        raise SystemExit("the run was not trained with a reward of parting.py")
    return match[2], match[1] == "kind"


if __name__ == "__main__":
    sys.exit(main())
