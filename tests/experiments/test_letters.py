"""Letters against their definition on random graphs, the block analysis by hand, and the command."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from letters import blocks_of, main
from synthetic_store import build_store
from tukey import compact_letters, fit_blocks, honest_difference, odd_spreads

from analysis import load

# Means 3, 5, 8; block means 3, 5, 8; residual squares 2/3, 8/3, 2/3, so 4 on (3 - 1)(3 - 1) degrees of freedom.
BY_HAND = np.array([[1.0, 3, 5], [2, 4, 9], [6, 8, 10]])


def graph(pairs, arms):
    resolved = np.zeros((arms, arms), dtype=bool)
    for a, b in pairs:
        resolved[a, b] = resolved[b, a] = True
    return resolved


def columns_of(letters):
    return {one: {arm for arm, own in enumerate(letters) if one in own} for one in set("".join(letters))}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_letters_say_exactly_what_is_resolved_and_none_is_redundant(share) -> None:
    rng = np.random.default_rng(int(10 * share))
    for arms in [*range(1, 9)] * 5:
        drawn = np.triu(rng.random((arms, arms)) < share, 1)
        resolved = drawn | drawn.T
        letters = compact_letters(resolved)
        columns = columns_of(letters)
        for a, b in itertools.combinations(range(arms), 2):
            assert bool(set(letters[a]) & set(letters[b])) == (not resolved[a, b])
        assert all(letters)
        assert not any(
            one < other or (one == other and a < b)
            for (a, one), (b, other) in itertools.permutations(columns.items(), 2)
        )
        for name, column in columns.items():
            for arm in column:  # without this letter the arm would lose a partner, or itself
                rest = set(letters[arm]) - {name}
                assert any(not rest & (set(letters[partner])) for partner in column)


def test_blocks_by_hand() -> None:
    fit = fit_blocks(BY_HAND)
    assert fit.means_A.tolist() == pytest.approx([3, 5, 8])
    assert (fit.sd, fit.degrees, fit.blocks) == (pytest.approx(1.0), 4, 3)
    assert fit.own_sd_A**2 == pytest.approx([0.5, 2.0, 0.5])  # their mean is the pooled variance
    # Printed tables: q(0.05; 3, 4) = 5.04.
    assert honest_difference(fit) == pytest.approx(5.04 / 3**0.5, abs=0.001)


def test_a_collapsed_arm_is_measured_against_the_others_alone() -> None:
    values = np.random.default_rng(6).normal(size=(12, 4))
    assert odd_spreads(values) == {}
    values[7] *= 30
    odd = odd_spreads(values)
    assert list(odd) == [7]
    assert odd[7] == pytest.approx(fit_blocks(np.delete(values, 7, axis=0)).sd)


def test_the_command_prints_and_writes_the_analysis_of_complete_blocks(tmp_path, capsys) -> None:
    levels = [("naive", "naive_grpo & more", 0.50, 30.0), ("filter", "filter", 0.51, 36.0)]
    levels += [("clip", "clip", 0.52, 38.0), ("dynamic", "dynamic sampling", 0.80, 50.0)]
    lost = [((2, 4), "failed")]
    build_store(tmp_path, rungs=levels, seeds=range(5), caps=(32,), design="arms", missing=lost)
    results = load(tmp_path, "ladder")
    values = [[results.values(arm)[seed] for seed in range(4)] for arm in results.experiment.plan.arms]
    assert blocks_of(results).values_AB.tolist() == values
    assert main([str(tmp_path), "ladder", "--out", str(tmp_path / "here")]) == 0
    printed = capsys.readouterr().out
    assert "4 of 5 planned seeds" in printed
    assert (tmp_path / "here" / "letters.md").read_text() == printed
    frame = pd.read_csv(tmp_path / "here" / "letters.csv")
    assert frame["arm"][0] == "dynamic sampling"
    assert frame["letters"].tolist() == ["a", "b", "b", "b"]
    assert "naive\\_grpo \\& more" in (tmp_path / "here" / "letters.tex").read_text()
    assert main([str(tmp_path), "ladder", "--leave-out", "nobody"]) == 2
    assert "no arm 'nobody'" in capsys.readouterr().err
