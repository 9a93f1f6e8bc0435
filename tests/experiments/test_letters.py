"""Letters against their definition on random graphs, the block analysis by hand, Tukey's HSD by tables and simulation, and the command."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from letters import blocks_of, letters_table, main
from synthetic_store import build_store
from tukey import compact_letters, fit_blocks, honest_difference, odd_spreads

from analysis import load
from harness.statistics.intervals import paired_difference

# Means 3, 5, 8; block means 3, 5, 8; residual squares 2/3, 8/3, 2/3, so 4 on (3 - 1)(3 - 1) degrees of freedom.
BY_HAND = np.array([[1.0, 3, 5], [2, 4, 9], [6, 8, 10]])
LEVELS = [
    ("naive", "naive_grpo & more", 0.50, 30.0),
    ("filter", "filter", 0.51, 36.0),
    ("clip", "clip", 0.52, 38.0),
    ("dynamic", "dynamic sampling", 0.80, 50.0),
]


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


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], ["a", "a", "a"]),
        ([(0, 2)], ["a", "ab", "b"]),
        ([(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
        ([(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
    ],
)
def test_letters_of_small_cases(pairs, expected) -> None:
    arms = max([2, *itertools.chain(*pairs)]) + 1
    assert compact_letters(graph(pairs, arms)) == expected


def test_sweeping_takes_the_letter_that_three_others_make_redundant() -> None:
    """A triangle with a triangle on each side: four maximal cliques, of which the inner one joins nobody anew."""
    joined = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (2, 4), (0, 5), (2, 5)]
    resolved = graph([pair for pair in itertools.combinations(range(6), 2) if pair not in joined], 6)
    letters = compact_letters(resolved)
    assert sorted(map(sorted, columns_of(letters).values())) == [[0, 1, 3], [0, 2, 5], [1, 2, 4]]


def test_blocks_by_hand() -> None:
    fit = fit_blocks(BY_HAND)
    assert fit.means_A.tolist() == pytest.approx([3, 5, 8])
    assert (fit.sd, fit.degrees, fit.blocks) == (pytest.approx(1.0), 4, 3)
    assert fit.own_sd_A**2 == pytest.approx([0.5, 2.0, 0.5])  # their mean is the pooled variance
    assert honest_difference(fit) == pytest.approx(
        5.04 / 3**0.5, abs=0.001
    )  # printed tables: q(0.05; 3, 4) = 5.04


def test_what_a_block_adds_to_all_arms_and_the_order_of_arms_change_nothing() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(5, 4))
    fit, moved = fit_blocks(values), fit_blocks(values[::-1] + rng.normal(size=4) * 100)
    assert moved.sd == pytest.approx(fit.sd)
    assert moved.own_sd_A[::-1] == pytest.approx(fit.own_sd_A)
    assert honest_difference(moved) == pytest.approx(honest_difference(fit))


def test_two_arms_are_the_paired_t_test() -> None:
    values = np.random.default_rng(4).normal(size=(2, 6))
    paired = paired_difference(*values)
    assert honest_difference(fit_blocks(values)) == pytest.approx(paired.high - paired.value)


@pytest.mark.parametrize(
    ("arms", "spread_of_first", "any_pair", "pairs_of_others"),
    [(6, 1, 0.05, None), (37, 1, 0.05, None), (37, 3, 0.21, 0.018)],
)
def test_arms_that_are_the_same_are_told_apart_once_in_twenty(
    arms, spread_of_first, any_pair, pairs_of_others
) -> None:
    """Four blocks that differ by five times the residual: any pair told apart, in 4000 experiments. One spread that is not the others'
    breaks it: then differences to that arm are found too often, those between the others too rarely."""
    rng = np.random.default_rng(5)
    spread = np.where(np.arange(arms) == 0, spread_of_first, 1)
    values = spread[:, None] * rng.normal(size=(4000, arms, 4)) + 5 * rng.normal(size=(4000, 1, 4))
    ratio = honest_difference(fit_blocks(values[0])) / fit_blocks(values[0]).sd
    fits = [fit_blocks(one) for one in values]
    found = np.mean([np.ptp(fit.means_A) > ratio * fit.sd for fit in fits])
    assert found == pytest.approx(
        any_pair, abs=0.011 if spread_of_first == 1 else 0.02
    )  # three standard errors
    if pairs_of_others is not None:
        others = np.mean([np.ptp(fit.means_A[1:]) > ratio * fit.sd for fit in fits])
        assert others == pytest.approx(pairs_of_others, abs=0.007)


def test_a_collapsed_arm_is_measured_against_the_others_alone() -> None:
    values = np.random.default_rng(6).normal(size=(12, 4))
    assert odd_spreads(values) == {}
    values[7] *= 30
    odd = odd_spreads(values)
    assert list(odd) == [7]
    assert odd[7] == pytest.approx(fit_blocks(np.delete(values, 7, axis=0)).sd)


@pytest.fixture
def root(tmp_path):
    build_store(
        tmp_path, rungs=LEVELS, seeds=(0, 1, 2, 3, 4), caps=(32,), design="arms", missing=[((2, 4), "failed")]
    )
    return tmp_path


def test_the_table_is_the_analysis_of_complete_blocks(root) -> None:
    results = load(root, "ladder")
    blocks = blocks_of(results)
    plan = results.experiment.plan
    values = [[results.values(arm)[seed] for seed in (0, 1, 2, 3)] for arm in plan.arms]
    assert blocks.values_AB.tolist() == values
    table = letters_table(results, blocks, {})
    means = [row["score"].value for row in table.rows]
    assert means == sorted(np.mean(values, axis=1), reverse=True)
    assert table.rows[0]["arm"] == "dynamic sampling"
    assert table.rows[0]["letters"] == "a"
    assert {row["letters"] for row in table.rows[1:]} == {"b"}
    assert [row["tokens"] for row in table.rows] == [62_000] * 4
    assert "rate" not in [column.key for column in table.columns]
    notes = " ".join(table.notes)
    assert "Blocks: 4 of 5 planned seeds; 1 left out. Some arm lacks seed 4." in notes


def test_seeds_of_one_base_policy_are_one_block(root) -> None:
    path = root / "experiments" / "ladder" / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_policies": 2}))
    results = load(root, "ladder")
    blocks = blocks_of(results, ["clip"])
    arm = results.experiment.plan.arm("naive")
    own = results.values(arm)
    expected = [np.mean([own[0], own[2], own[4]]), np.mean([own[1], own[3]])]
    assert blocks.values_AB[0] == pytest.approx(expected)
    notes = letters_table(results, blocks, {}).notes
    assert "2 of 2 planned base policies; 0 left out." in " ".join(notes)
    assert any(note.startswith("Left out on request: clip (") for note in notes)


def test_the_command_prints_and_writes_the_table(root, capsys) -> None:
    runs = {index: f"{index:08x}{0:08x}" for index in range(4)}
    for index, rate in enumerate(("1e-4", "2.0e-4", "2e-4", "0.0005")):
        path = next(root.rglob(f"{runs[index]}/config.yaml"))
        path.write_text(f"optimizer:\n  learning_rate: {rate}\n")
    assert main([str(root), "ladder", "--out", str(root / "here")]) == 0
    printed = capsys.readouterr().out
    assert (root / "here" / "letters.md").read_text() == printed
    frame = pd.read_csv(root / "here" / "letters.csv")
    assert sorted(frame["rate"]) == pytest.approx([1e-4, 2e-4, 2e-4, 5e-4])
    assert "| 5e-4 |" in printed
    assert "naive\\_grpo \\& more" in (root / "here" / "letters.tex").read_text()
    assert main([str(root), "ladder", "--leave-out", "naive,filter,clip"]) == 2
    assert "1 arms and 5 seeds" in capsys.readouterr().err
    assert main([str(root), "ladder", "--leave-out", "nobody"]) == 2
    assert "no arm 'nobody'" in capsys.readouterr().err
