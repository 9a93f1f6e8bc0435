"""Pass@k by difficulty: bands by hand, no gain out of nothing, and counts that come from training or from `harness evaluate`."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from bands import band_table, evaluated_counts, main, stored_counts
from difficulty_bands import band_means, crossed_bands
from synthetic_store import build_store, make_samples

from analysis import load
from harness.evaluation.metrics.exact import pass_at_k
from harness.store.samples import write_part


def test_bands_come_from_the_other_replicates() -> None:
    rates = {0: np.array([0.0, 1.0, 0.3]), 1: np.array([0.2, 0.6, 0.9]), 2: np.array([0.6, 0.2, 0.6])}
    bands = crossed_bands(rates, [0.25, 0.5])
    assert bands[0].tolist() == [1, 1, 2]  # means of the two others: .4, .4, .75
    assert bands[1].tolist() == [1, 2, 1]  # .3, .6, .45
    assert bands[2].tolist() == [0, 2, 2]  # .1, .8, .6


def test_a_rate_at_an_edge_belongs_to_the_band_above() -> None:
    thirds = {
        i: np.array([0.1]) for i in range(4)
    }  # 3 x 0.1 / 3 is 0.10000000000000002 or less, by the order of addition
    assert {int(band[0]) for band in crossed_bands(thirds, [0.1]).values()} == {1}


@pytest.mark.parametrize(
    ("rates", "edges", "named"),
    [(1, [0.5], "at least two"), (2, [0.5, 0.5], "must rise"), (2, [0.0, 0.5], "between 0 and 1")],
)
def test_bands_that_cannot_be_made_are_refused(rates: int, edges: list[float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        crossed_bands({i: np.array([0.5]) for i in range(rates)}, edges)


def test_means_of_bands_and_an_empty_band() -> None:
    found = band_means(np.array([1.0, 0.0, 0.5]), np.array([0, 0, 2]), 3)
    assert found[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(found[1])


def test_two_equal_arms_differ_in_no_band_where_bands_by_own_outcome_would_say_so() -> None:
    rng, bands_count, own_low, crossed_low = np.random.default_rng(0), 3, [], []
    truth = rng.uniform(0.2, 0.8, 400)
    for _ in range(40):
        reference = {i: rng.binomial(8, truth) / 8 for i in range(4)}
        other = {i: rng.binomial(8, truth) / 8 for i in range(4)}
        crossed = crossed_bands(reference, [0.4, 0.6])
        for i in range(4):
            difference = other[i] - reference[i]
            own_low.append(band_means(difference, np.digitize(reference[i], [0.4, 0.6]), bands_count)[0])
            crossed_low.append(band_means(difference, crossed[i], bands_count)[0])
    assert np.mean(own_low) > 0.08
    assert abs(np.mean(crossed_low)) < 0.01


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("bands")
    build_store(place, seeds=(0, 1, 2, 3), caps=(32,))
    return place


def test_all_problems_are_pass_at_k_of_the_arms(root) -> None:
    results = load(root, "ladder")
    arm, reference = results.experiment.plan.arms[3], results.experiment.plan.arms[2]
    counts = stored_counts(results)
    table = band_table(results, counts, arm, reference, [0.5], [1, 4])
    ours = {seed: pass_at_k(counts[run, 20].right_P, 8, 4).mean() for seed, run in arm.runs.items()}
    theirs = {seed: pass_at_k(counts[run, 20].right_P, 8, 4).mean() for seed, run in reference.runs.items()}
    rows = {(row["band"], row["what"]): row for row in table.rows}
    assert rows["all problems", arm.label]["pass_4"] == pytest.approx(np.mean([*ours.values()]))
    expected = 100 * np.mean([ours[seed] - theirs[seed] for seed in ours])
    assert str(rows["all problems", "difference"]["pass_4"]).startswith(f"{expected:+.1f} [")
    parts = [rows[name, arm.label] for name in ("0 to 50 %", "50 to 100 %")]
    assert sum(float(part["problems"]) for part in parts) == 24


def test_counts_of_an_evaluation_reach_as_far_as_its_samples(root, tmp_path) -> None:
    """Two runs before RL and after it, 16 samples a problem, 20 in the folder."""
    results = load(root, "ladder")
    arm, cells, expected = results.experiment.plan.arms[0], [], {}
    for seed in (0, 1):
        for at in ("@0", ""):
            frame = make_samples(np.random.default_rng([seed, len(at)]), 0.4, 24, 20, 32)
            folder = f"evaluations/samples/{seed}{at}"
            (root / folder).mkdir(parents=True, exist_ok=True)
            shuffled = frame.sample(frac=1, random_state=0)
            write_part(
                root / folder / "part-000000.parquet",
                pa.Table.from_pandas(shuffled, preserve_index=False),
                {},
            )
            cells.append({"model": arm.runs[seed] + at, "benchmark": "arithmetic_heldout", "cap": 32})
            cells[-1] |= {"samples": folder, "samples_per_problem": 16}
            first = frame[frame["sample_index"] < 16]
            expected[arm.runs[seed], 0 if at else 20] = first.groupby("problem_id")["correct"].sum().tolist()
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"cells": cells}))
    counts = evaluated_counts(root, path, results)
    assert {key: one.right_P.tolist() for key, one in counts.items()} == expected
    table = band_table(results, counts, arm, None, [0.5])
    assert [column.key for column in table.columns[3:]] == ["pass_1", "pass_2", "pass_4", "pass_8", "pass_16"]
    path.write_text(json.dumps({"cells": [{**cells[0], "cap": 64}]}))
    with pytest.raises(ValueError, match="evaluates no run of ladder"):
        evaluated_counts(root, path, results)


def test_the_command_prints_or_names_what_is_wrong(root, capsys) -> None:
    ladder = [str(root), "ladder", "--arm", "ladder_3_dynamic_sampling"]
    assert main([*ladder, "--ks", "1,8"]) == 0
    assert "before RL" in capsys.readouterr().out
    assert main([*ladder, "--ks", "16"]) == 2
    assert "k=16" in capsys.readouterr().err
    assert main([str(root), "ladder", "--arm", "nobody"]) == 2
    assert "no arm 'nobody'" in capsys.readouterr().err


def test_one_policy_before_training_gives_no_bands_from_its_own_samples(root) -> None:
    """Without base policies in turn all seeds start from one policy, evaluated with the same sampling seed."""
    results = load(root, "ladder")
    arm, counts = results.experiment.plan.arms[0], stored_counts(results)
    same = counts[arm.runs[0], 0]
    counts |= {(run, 0): same for run in arm.runs.values()}
    with pytest.raises(ValueError, match="are one\\)"):
        band_table(results, counts, arm, None, [0.5])
