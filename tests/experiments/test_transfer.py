"""Predictions against what runs found: pairs, signs, exact interval, and what is not there yet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import transfer

from analysis import difference, load

HEADER = ("experiment", "arm", "reference", "effect", "low", "high", "word")
NAIVE, FILTER, CLIP, DYNAMIC = (
    "ladder_0_naive_grpo",
    "ladder_1_overlong_filtering",
    "ladder_2_clip_higher",
    "ladder_3_dynamic_sampling",
)


def predictions() -> pd.DataFrame:
    rows = [
        ("ladder", DYNAMIC, NAIVE, 7.0, 4.0, 10.0, "higher"),
        ("ladder", FILTER, NAIVE, 2.0, 1.0, 3.0, "higher"),
        ("ladder_gpu", CLIP, FILTER, 0.0, -1.0, 1.0, "equivalent"),  # ran on CPU cores alone
        ("ladder", "no_such_arm", FILTER, 5.0, 4.0, 6.0, "higher"),
        ("not_run_yet", CLIP, FILTER, 5.0, 4.0, 6.0, "higher"),
    ]
    return pd.DataFrame(rows, columns=HEADER)


def test_signs_are_counted_where_the_testbed_gives_one(root: Path, tmp_path: Path) -> None:
    results, pairs = load(root, "ladder"), transfer.pairs_of([tmp_path, root], predictions())
    found = [difference(results, arm, reference) for arm, reference in ((DYNAMIC, NAIVE), (FILTER, NAIVE))]
    assert [pair.language.value for pair in pairs[:2]] == [one.value for one in found]
    assert found[0].value > 0 > found[1].value  # 70 and 47 % against 50
    assert [pair.direction_holds for pair in pairs] == [True, False, None]
    sign = transfer.agreement(pairs)[0]
    assert "1 of 2 comparisons" in sign
    assert "1 to 99" in sign  # 1 - 0.975**0.5 of each tail
    decided = [pair for pair in pairs if pair.language.verdict.value != "not resolved"]
    agreeing = sum(pair.language.verdict.value.startswith(pair.word) for pair in decided)
    assert f"Verdict: {agreeing} of {len(decided)} " in " ".join(transfer.agreement(pairs))
    assert transfer.transfer_table(pairs).rows[0]["comparison"] == "dynamic sampling_& refill against naive GRPO"


def test_every_prediction_names_arms_that_its_experiment_declares() -> None:
    from harness.experiment.planning import declared_experiment

    files = [transfer.PREDICTIONS, transfer.PREDICTIONS.with_name("predictions_test.csv")]
    table = pd.concat([pd.read_csv(file) for file in files])
    for name, rows in table.groupby("experiment"):
        arms = {arm["name"] for arm in declared_experiment([f"experiment={name}"]).arms}
        assert {*rows["arm"], *rows["reference"]} <= arms
    assert table["word"].isin(["higher", "lower", "equivalent", "not resolved"]).all()
    assert ((table["low"] < table["effect"]) & (table["effect"] < table["high"])).all()


def test_a_test_is_scored_beside_two_trivial_rivals(root: Path) -> None:
    rows = predictions().assign(predicted=[5.0, 1.0, 0.0, 1.0, 1.0], wrong_reward=[0.0, -4.0, 0.0, 0.0, 0.0])
    pairs = transfer.pairs_of([root], rows)
    found = [pair.language.value for pair in pairs]  # +20, −3, 0
    means = [float(line.split("error ")[1].split()[0]) for line in transfer.score(pairs)]
    for mean, said in zip(means, ([5, 1, 0], [7, 2, 0], [0, 0, 0], [0, -4, 0]), strict=True):
        assert mean == round(sum(abs(a - b) for a, b in zip(said, found, strict=True)) / 3, 1)
    assert transfer.score(transfer.pairs_of([root], predictions())) == []
