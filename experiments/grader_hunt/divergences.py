"""The answers that a grader rewarded in training and that others do not confirm, step by step, with examples.

    python experiments/grader_hunt/divergences.py results field_graders      # the table; divergences.csv has every unconfirmed answer

Reads the rollouts that `runtime.record_rollouts=true` wrote. An answer is confirmed where this harness's verifier takes it (`any`, form
`evaluated`) or the second grader does (the last numeral, strictly); in a run against the verifier itself the second grader alone
confirms. A grader is broken at the first step from which on, over three steps together, a tenth of what it rewarded is not confirmed.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.base_policy.pretrained import prepare
from harness.configuration.schema import RunConfig, load
from harness.model.checkpoint import load_tokenizer
from harness.problems.problem import load_benchmark
from harness.reward.function import RewardFunction
from harness.rollout.prompts import prompt_tokens
from harness.store import ResultStore, RunDir
from harness.verify import MathVerifier, VerifierConfig

BROKEN_SHARE, STEPS_TOGETHER = 0.1, 3


@dataclass(frozen=True)
class Answer:
    """One response of training: whether its grader, the verifier and the second grader take it, and whether its grader is the verifier."""

    step: int
    problem: str
    text: str
    gold: str
    rewarded: bool
    verifier: bool
    second: bool
    own: bool

    @property
    def confirmed(self) -> bool:
        """Say if a grader that the policy was not trained against takes the answer."""
        return self.second or (self.verifier and not self.own)


def answers(run: RunDir, verifier: MathVerifier) -> list[Answer]:
    """Return the training responses of a finished run, in order."""
    config = load(yaml.safe_load(run.config()))
    task = load_benchmark(config.task)
    folder = prepare(config.model, config.task, config.seed, run.path.parents[1] / "cache", "torch")
    tokenizer = load_tokenizer(folder)
    known = {tuple(ids): i for i, ids in enumerate(prompt_tokens(tokenizer, task))}
    rows = [
        (step, known[tuple(line["prompt"])], tokenizer.decode(response["tokens"], skip_special_tokens=True))
        for step, line in _training_lines(run, known, config.algorithm.prompts_per_step)
        for response in line["responses"]
    ]
    texts, asked = [text for _, _, text in rows], [task.problems[i] for _, i, _ in rows]
    golds, problems = [problem.gold for problem in asked], [problem.prompt for problem in asked]
    pairs = list(zip(texts, golds, strict=True))
    rewarded = _rewarded(config, texts, golds, problems)
    ours = [verdict.correct for verdict in verifier.verify_many(pairs, problems)]
    second = [bool(verdict) for verdict in verifier.second_many(pairs)]
    found = zip(rows, asked, rewarded, ours, second, strict=True)
    own = not config.algorithm.reward.function
    return [Answer(row[0], p.id, row[2], p.gold, r, o, s, own) for row, p, r, o, s in found]


def _training_lines(
    run: RunDir, known: Mapping[tuple[int, ...], int], prompts_per_step: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the recorded groups of training prompts with their steps (naive GRPO: one round a step)."""
    count = 0
    with (run.path / "rollouts.jsonl").open() as file:
        for line in map(json.loads, file):
            if tuple(line["prompt"]) in known:
                yield count // prompts_per_step + 1, line
                count += 1


def _rewarded(
    config: RunConfig, texts: Sequence[str], golds: Sequence[str], problems: Sequence[str]
) -> list[bool]:
    """Return what the grader of the run's training says."""
    if config.algorithm.reward.function:
        return [
            reward > 0
            for reward in RewardFunction(config.algorithm.reward).outcomes(texts, golds, problems).tolist()
        ]
    rules = config.verifier
    own = VerifierConfig(extraction=rules.extraction, answer_must_end=rules.answer_must_end, form=rules.form)
    with MathVerifier(own) as verifier:
        return [v.correct for v in verifier.verify_many(list(zip(texts, golds, strict=True)), problems)]


def broken_at(found: Sequence[Answer]) -> int | None:
    """Return the first step from which, over `STEPS_TOGETHER`, a tenth of the rewarded answers is not confirmed."""
    rewarded, unconfirmed = Counter[int](), Counter[int]()
    for answer in found:
        rewarded[answer.step] += answer.rewarded
        unconfirmed[answer.step] += answer.rewarded and not answer.confirmed
    for step in sorted(rewarded):
        steps = range(step, step + STEPS_TOGETHER)
        total = sum(rewarded[one] for one in steps)
        if total and sum(unconfirmed[one] for one in steps) >= BROKEN_SHARE * total:
            return step
    return None


def row(found: Sequence[Answer]) -> dict[str, Any]:
    """Return the figures of one run in %, in the first and in the last quarter of its steps.

    Rewarded: of all responses. Not by the verifier, confirmed by neither: of the rewarded. Not rewarded: of what both others hold right.
    """
    last = max(answer.step for answer in found)
    start = [answer for answer in found if answer.step <= last / 4]
    end = [answer for answer in found if answer.step > last * 3 / 4]
    return {
        "rewarded": f"{_percent(sum(a.rewarded for a in start), len(start))} -> {_percent(sum(a.rewarded for a in end), len(end))}",
        "not by the verifier": f"{_refused(start)} -> {_refused(end)}",
        "confirmed by neither": f"{_unconfirmed(start)} -> {_unconfirmed(end)}",
        "right by both, not rewarded": f"{_missed(start)} -> {_missed(end)}",
        "a tenth unconfirmed from step": broken_at(found) or "-",
    }


def _unconfirmed(answers: Sequence[Answer]) -> str:
    rewarded = [answer for answer in answers if answer.rewarded]
    return _percent(sum(not answer.confirmed for answer in rewarded), len(rewarded))


def _refused(answers: Sequence[Answer]) -> str:
    rewarded = [answer for answer in answers if answer.rewarded]
    return _percent(sum(not answer.verifier for answer in rewarded), len(rewarded))


def _missed(answers: Sequence[Answer]) -> str:
    right = [answer for answer in answers if answer.verifier and answer.second]
    return _percent(sum(not answer.rewarded for answer in right), len(right))


def _percent(hits: int, total: int) -> str:
    return f"{100 * hits / total:.1f}" if total else "-"


def main() -> None:
    """Print the table and write the examples."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("experiment")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("divergences.csv"))
    wanted = parser.parse_args()
    store = ResultStore(wanted.results)
    examples: dict[str, list[Answer]] = defaultdict(list)
    with MathVerifier(VerifierConfig(extraction="any")) as verifier:
        for arm in store.plan(wanted.experiment)["arms"]:
            for seed, run_id in arm["runs"].items():
                run = store.run(run_id)
                if run.status != "finished":
                    continue
                found = answers(run, verifier)
                examples[arm["name"]] += [one for one in found if one.rewarded and not one.confirmed]
                print(
                    f"{arm['label']:26} seed {seed}  " + "  ".join(f"{k} {v}" for k, v in row(found).items())
                )
    with wanted.out.open("w", newline="") as file:
        columns = [name for name in Answer.__dataclass_fields__ if name != "own"]
        writer = csv.DictWriter(file, ["arm", *columns], extrasaction="ignore")
        writer.writeheader()
        for name, some in examples.items():
            writer.writerows({"arm": name, **asdict(one)} for one in some)


if __name__ == "__main__":
    main()
