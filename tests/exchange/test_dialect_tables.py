"""The two tables: what a trainer's settings become here, what ours become there, and that nothing is dropped without a line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from tables import table
from trainer_configs import ACTOR, DIALECTS, RESOLVED, TRL, VERL, compose_once, lines, read

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference, flatten
from harness.configuration.schema import dump
from harness.exchange.dialect import Translation, load_table

ODD = [None, "${x}", "???", "auto", -1, 0, True, math.nan, math.inf, [], {}, ["a", 1], [None], "1e", 10**30]


def situations(dialect: str) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """The resolved configuration with all its keys, and for each block of the table one in which its rows have an effect, with those."""
    table, values = load_table(dialect), RESOLVED[dialect]
    yield values, {*values, *(key.replace("*", "x") for key in table.active(values))}
    for block in table.beside:
        yield values | {key: wanted[0] for key, wanted in block.condition.items()}, {*block.condition, *block.rows}
    if dialect == "verl":
        in_reward = {f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": True}
        yield VERL | in_reward, {"algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty", *in_reward}
        yield VERL | {"trainer.total_training_steps": None}, {"trainer.total_epochs"}
        yield VERL | {f"{ACTOR}.optim.lr_warmup_steps": 7}, {f"{ACTOR}.optim.lr_warmup_steps"}
    else:
        yield TRL | {"max_steps": -1}, {"num_train_epochs"}
        yield TRL | {"warmup_steps": 0}, {"warmup_ratio"}


def outcome(dialect: str, values: dict[str, Any], compose: bool = False) -> Any:
    """What a user sees of a translation; a refusal with a message is an answer, too, another exception is none."""
    try:
        found = DIALECTS[dialect].translate(values)
        if compose:
            compose_run(found.overrides())
    except ConfigError as error:
        return str(error)
    return found.settings, sorted(found.inexpressible), sorted(found.notes), found.missing


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_key_at_an_odd_value_is_a_traceback(dialect: str) -> None:
    """`${x}`, null, a text, a list: each is a listed line, a clear error, or a value."""
    for values, keys in situations(dialect):
        for key in sorted(keys):
            for odd in ODD:
                answer = outcome(dialect, values | {key: odd})
                named = key.rpartition(".")[2] in answer or "responses" in answer if isinstance(answer, str) else True
                assert named, (key, odd, answer)


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 if value else 3
    if isinstance(value, list):
        return [*value, 0.5]
    return 0.25 if value is None else "another"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_key_of_the_table_that_changes_changes_the_translation_or_is_listed(dialect: str) -> None:
    silent, heard = set(), set()
    for values, keys in situations(dialect):
        base, rows = outcome(dialect, values), load_table(dialect).active(values)
        for key in keys & {name.replace("*", "x") for name in rows}:
            other = outcome(dialect, values | {key: changed(values.get(key, 0.125))})
            (silent if other == base else heard).add(key)
    assert silent - heard == set()
    assert len(heard) > 60


@pytest.mark.parametrize("dialect", DIALECTS)
def test_rows_name_keys_that_the_harness_has(dialect: str) -> None:
    """Each value of a row composes, beside the settings that give it an effect."""
    for values, keys in situations(dialect):
        for key, row in load_table(dialect).active(values).items():
            for choice, meaning in {} if isinstance(row, str) or key not in keys else row.items():
                if isinstance(meaning, dict):
                    answer = outcome(dialect, values | {key: choice}, compose=True)
                    assert "unknown" not in str(answer), answer


@table(__file__, "read", "dialect, change, ours")
def test_a_setting_of_theirs_is_read(dialect: str, change: dict[str, Any], ours: dict[str, Any]) -> None:
    found = flatten(dump(read(dialect, RESOLVED[dialect] | change)))
    assert {key: found[key] for key in ours} == ours


def test_a_second_kl_term_of_verl_is_listed() -> None:
    """verl allows both; the loss's has its place here and the reward's was lost without a word."""
    both = VERL | {"algorithm.use_kl_in_reward": True}
    algorithm = read("verl", both).algorithm
    assert (algorithm.kl.coefficient, algorithm.kl.placement) == (0.001, "loss")
    said = "algorithm.use_kl_in_reward=True: verl adds this KL term of algorithm.kl_ctrl.kl_coef=0.01 to the loss's; one has a place here"
    assert said in lines("verl", both)


@table(__file__, "conditions", "dialect, condition, key")
def test_a_key_whose_condition_is_not_in_the_file_is_listed(dialect: str, condition: str, key: str) -> None:
    values = {name: value for name, value in RESOLVED[dialect].items() if name != condition}
    assert any(
        line.startswith(f"{key}=") and f"{condition}, which is not in the file" in line
        for line in lines(dialect, values)
    )


def test_a_reward_function_that_is_a_text_is_one_name() -> None:
    values = TRL | {"reward_funcs": "accuracy", "reward_weights": [2.0]}
    assert read("trl", values).algorithm.reward.correct == 2.0
    assert not any("reward_funcs=" in line for line in lines("trl", values))


def test_weights_that_are_not_as_many_as_the_reward_functions_are_refused() -> None:
    values = TRL | {"reward_funcs": ["accuracy", "format", "length"], "reward_weights": [1.0]}
    with pytest.raises(ConfigError, match="reward_funcs has 3 names, reward_weights 1 numbers"):
        DIALECTS["trl"].translate(values)
    listed = lines("trl", values | {"reward_weights": [1.0, 0.5, 0.25]})
    assert {"format (weight 0.5)", "length (weight 0.25)"} <= {
        line.partition("=")[2].partition(":")[0] for line in listed
    }


@table(__file__, "lost", "dialect, change, line")
def test_what_is_lost_on_the_way_here_is_listed(dialect: str, change: dict[str, Any], line: str) -> None:
    values = RESOLVED[dialect] | change
    assert any(line in each for each in lines(dialect, values)), lines(dialect, values)
    if "${" not in line:
        read(dialect, values)  # it composes


@table(__file__, "refused", "dialect, change, message")
def test_values_that_cannot_be_are_named(dialect: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DIALECTS[dialect].translate(RESOLVED[dialect] | change)


def test_batch_sizes_of_trl_need_the_devices_where_nothing_tells_them() -> None:
    bare = {key: value for key, value in TRL.items() if key not in ("generation_batch_size", "steps_per_generation")}
    line = "per_device_train_batch_size=16: counts responses on one device; give devices=N, the processes that trained"
    assert line in lines("trl", bare)
    # 16 a device x 2 accumulated x 4 devices make 128 responses, one update.
    algorithm = read("trl", bare, devices=4).algorithm
    assert (algorithm.prompts_per_step, algorithm.updates_per_step) == (16, 1)


# ---- from ours to theirs ----

WARM_DAPO = ["algorithm=dapo", "optimizer.warmup_steps=5"]


def exported(dialect: str, *overrides: str) -> Translation:
    found: Translation = DIALECTS[dialect].export(compose_once(*overrides))
    return found


@pytest.mark.parametrize("name", options("algorithm"))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_expressible_survives_the_way_there_and_back(dialect: str, name: str) -> None:
    there = exported(dialect, f"algorithm={name}", "optimizer.warmup_steps=5")
    kinds = ("algorithm.advantage.kind", "algorithm.surrogate.kind", "algorithm.aggregation.kind")
    if any(line.startswith(kinds) for line in there.inexpressible):
        return  # another kind of algorithm: nothing to come back to
    returned = read(dialect, there.settings, devices=1 if dialect == "trl" else None)
    lost = " ".join(there.inexpressible + there.notes)
    for key, (before, after) in difference(
        compose_once(f"algorithm={name}", "optimizer.warmup_steps=5"), returned
    ).items():
        leaf, section = key.rpartition(".")[2], key.split(".")[1]
        named = leaf in lost or f"algorithm.{section}" in lost or section in ("reward", "overlong", "kl")
        assert named, f"{key}: {before} came back as {after}\n" + "\n".join(there.inexpressible)


@table(__file__, "written", "dialect, overrides, settings")
def test_settings_have_their_names_and_units(dialect: str, overrides: list[str], settings: dict[str, Any]) -> None:
    """None: the key is not written."""
    found = exported(dialect, *overrides).settings
    assert {key: found.get(key) for key in settings} == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in settings.items()
    }


@table(__file__, "inexpressible", "dialect, overrides, named")
def test_what_a_target_cannot_express_is_named(dialect: str, overrides: list[str], named: str) -> None:
    found = exported(dialect, *overrides).inexpressible
    assert any(named in line for line in found), found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_budgets_ends_of_responses_and_values_of_rewards_are_said(dialect: str) -> None:
    given = ["training.generated_tokens=1000000", "sampling.stop_strings=[stop]"]
    given += ["algorithm.reward.wrong=0", "algorithm.reward.format_credit=0.1"]
    out = exported(dialect, "algorithm=grpo", *given)
    named = [line.partition("=")[0] for line in out.inexpressible]
    assert {"training.generated_tokens", "sampling.stop_strings"} <= set(named)
    rewards = "give 1 for a right answer and 0 for a wrong one, 0.1 more where an answer can be extracted"
    assert any(rewards in note for note in out.notes)
    assert not any(
        line.startswith(("training.", "sampling.stop")) for line in exported(dialect, "algorithm=grpo").inexpressible
    )


def test_differences_that_a_backend_may_accept_have_names() -> None:
    assert list(exported("verl", *WARM_DAPO).deviations) == ["warmup_from_zero", "unbounded_refill"]
    assert exported("verl", "algorithm=grpo").deviations == {}
