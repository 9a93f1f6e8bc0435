"""Pass@k by difficulty: bands by hand, counts of an evaluation, and the command."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from bands import band_table, evaluated_counts, main
from difficulty_bands import band_means, crossed_bands
from synthetic_store import make_samples

from analysis import load
from harness.store.samples import write_part


def test_bands_come_from_the_other_replicates() -> None:
    rates = {0: np.array([0.0, 1.0, 0.3]), 1: np.array([0.2, 0.6, 0.9]), 2: np.array([0.6, 0.2, 0.6])}
    bands = crossed_bands(rates, [0.25, 0.5])
    assert bands[0].tolist() == [1, 1, 2]  # means of the two others: .4, .4, .75
    assert bands[1].tolist() == [1, 2, 1]  # .3, .6, .45
    assert bands[2].tolist() == [0, 2, 2]  # .1, .8, .6


def test_means_of_bands_and_an_empty_band() -> None:
    found = band_means(np.array([1.0, 0.0, 0.5]), np.array([0, 0, 2]), 3)
    assert found[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(found[1])


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
