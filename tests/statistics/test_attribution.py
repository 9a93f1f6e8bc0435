"""Factorial effects and Shapley values on scores made from known effects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.statistics.attribution import (
    Crossing,
    IncompleteDesign,
    Judging,
    interactions,
    main_effects,
    shapley,
    subset_of,
)

PATCHES = ["a", "b", "c"]
CROSSED = Crossing.of_patches(PATCHES)
EVERY_SEED = Judging()


def factorial_scores(seeds=4, interaction=0.0):
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.01, (8, seeds))
    scores = {}
    for index, on in enumerate(itertools.product([0, 1], repeat=3)):
        subset = frozenset(p for p, bit in zip(PATCHES, on, strict=True) if bit)
        level = 0.3 + 0.1 * on[0] + 0.05 * on[1] + interaction * on[0] * on[1]
        scores[subset] = {seed: level + noise[index, seed] for seed in range(seeds)}
    return scores


def test_main_effects_and_interactions_recover_the_model():
    scores = factorial_scores(interaction=0.04)
    main = dict(zip(PATCHES, main_effects(CROSSED, scores, EVERY_SEED).effects, strict=True))
    assert main["a"].value == pytest.approx(0.12, abs=0.01)  # effect at b off and on, averaged
    assert main["c"].value == pytest.approx(0.0, abs=0.01)
    found = interactions(CROSSED, scores, EVERY_SEED)
    assert found.names == ("a × b", "a × c", "b × c")
    assert found.effects[0].value == pytest.approx(0.04, abs=0.01)  # a adds 0.10 without b and 0.14 with it


def test_exact_shapley_equals_the_mean_over_all_orders_and_adds_up():
    scores = factorial_scores(interaction=0.04)
    exact = shapley(PATCHES, scores, EVERY_SEED)
    gains = [  # of a: first, after b, after c and last, in as many of the six orders
        count * (scores[before | {"a"}][seed] - scores[before][seed])
        for before, count in ((frozenset(), 2), (frozenset("b"), 1), (frozenset("c"), 1), (frozenset("bc"), 2))
        for seed in range(4)
    ]
    assert exact.effects[0].value == pytest.approx(sum(gains) / 6 / 4)
    full, base = scores[frozenset(PATCHES)], scores[frozenset()]
    gain = np.mean([full[s] - base[s] for s in full])
    assert sum(e.value for e in exact.effects) == pytest.approx(gain)


def test_a_patch_that_changes_nothing_is_worth_exactly_nothing():
    """Sums of such scores have a rounding error, which every seed may share: an interval of it would exclude zero."""
    rng = np.random.default_rng(0)
    without = {frozenset(subset): dict(enumerate(rng.integers(0, 9000, 5) / 30)) for subset in ("", "b", "c", "bc")}
    scores = without | {subset | {"a"}: by_seed for subset, by_seed in without.items()}
    for effects in (
        main_effects(CROSSED, scores, EVERY_SEED),
        interactions(CROSSED, scores, EVERY_SEED),
        shapley(PATCHES, scores, EVERY_SEED),
    ):
        nothing = [effect for name, effect in effects.pairs if name.startswith("a")]
        assert {(one.value, one.p_value, one.verdict) for one in nothing} == {(0.0, 1.0, "not resolved")}


def test_missing_arms_are_named():
    scores = factorial_scores()
    scores[frozenset({"a", "c"})] = {}
    with pytest.raises(IncompleteDesign, match=r"no finished run of: a\+c"):
        main_effects(CROSSED, scores, EVERY_SEED)
    with pytest.raises(IncompleteDesign, match="no finished run of: b;"):
        shapley(PATCHES, {frozenset("a"): {0: 1.0}}, EVERY_SEED)


def test_an_effect_is_taken_per_seed_before_seeds_of_one_base_policy_are_averaged():
    """Seeds 0 and 4 share a base policy, and one of two runs of an arm is missing: +0.1 in seed 0; averages first would give -0.2."""
    scores = {frozenset(): {0: 0.2, 4: 0.8, 1: 0.5}, frozenset({"a"}): {0: 0.3, 1: 0.7}}

    def by_base(values):
        groups = {}
        for seed, value in values.items():
            groups.setdefault(seed % 4, []).append(value)
        return [np.mean(group) for group in groups.values()]

    judging = Judging(replicates=by_base)
    for effects in (main_effects(Crossing.of_patches(["a"]), scores, judging), shapley(["a"], scores, judging)):
        (found,) = effects.effects
        assert (found.value, found.seeds) == (pytest.approx(0.15), 2)


def crossed(crossing, mean, seeds=3):
    """Scores of every cell: `mean(cell)` and a shift of each seed, which contrasts must not see."""
    return {subset_of(cell): {seed: mean(cell) + 0.1 * seed for seed in range(seeds)} for cell in crossing.cells}


GROUPS = {"group": ("g4", "g8", "g16"), "bonus": ("none", "on")}


def test_effects_of_three_levels_by_two_worked_by_hand():
    """Without the bonus 10, 12, 17; with it 11, 16, 15: marginal means 10.5, 14, 16 and 13, 14; the bonus adds 1, 4, -2."""
    table = dict(zip(itertools.product(*GROUPS.values()), (10, 11, 12, 16, 17, 15), strict=True))
    crossing = Crossing(GROUPS)
    assert crossing.cells[:3] == [("g4", "none"), ("g8", "none"), ("g16", "none")]
    assert subset_of(crossing.cells[-1]) == {"g16", "on"}
    scores = crossed(crossing, table.__getitem__)
    main, both = main_effects(crossing, scores, EVERY_SEED), interactions(crossing, scores, EVERY_SEED)
    assert main.names == ("g8 against g4", "g16 against g4", "on")
    assert [one.value for one in main.effects] == pytest.approx([3.5, 5.5, 1.0])
    assert both.names == ("g8 × on", "g16 × on")
    assert [one.value for one in both.effects] == pytest.approx([3.0, -3.0])
    assert {one.family for one in main.effects} == {3}
