"""The protocol that `harness evaluate model=` composes: presets of papers, benchmarks by name, local data, templates."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tables import table

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.schema import dump
from harness.evaluation.protocol import Request, protocol_config
from harness.store import RunDir

PRESETS = [name for name in options("evaluation") if name != "testbed"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_lists_its_papers_benchmarks_under_one_template(preset: str) -> None:
    config = protocol_config(Request(overrides=[f"evaluation={preset}"]), [])
    assert config.evaluation.benchmarks
    assert len({item.template for item in config.evaluation.benchmarks.values()}) == 1


@table(__file__, "forms", "overrides, form")
def test_a_papers_protocol_grades_by_value_as_its_grader_does(overrides: list[str], form: str) -> None:
    assert protocol_config(Request(overrides=overrides), []).verifier.form == form


def test_benchmarks_by_name_replace_the_presets_and_take_its_template() -> None:
    request = Request(["gsm8k", "aime24"], overrides=["evaluation=dr_grpo"])
    benchmarks = protocol_config(request, []).evaluation.benchmarks
    assert {name: item.template for name, item in benchmarks.items()} == {"gsm8k": "qwen_math", "aime24": "qwen_math"}
    own = protocol_config(Request(["gsm8k"], template="r1"), []).evaluation.benchmarks
    assert own["gsm8k"].template == "r1"


def test_values_can_be_overridden_and_the_verifier_reads_answer_lines_by_default() -> None:
    request = Request(["aime24"], overrides=["evaluation.caps=[16]", "evaluation.samples_per_problem=4"])
    config = protocol_config(request, [])
    assert (config.evaluation.caps, config.evaluation.samples_per_problem) == ([16], 4)
    assert (config.verifier.extraction, config.verifier.answer_must_end) == ("answer_line", False)
    boxed = protocol_config(Request(["aime24"], overrides=["verifier=boxed"]), [])
    assert boxed.verifier.extraction == "boxed"


def test_local_data_is_a_file_or_a_folder_of_files(tmp_path: Path) -> None:
    for name in ("aime24", "mine"):
        (tmp_path / f"{name}.jsonl").write_text("")
    folder = protocol_config(Request(["aime24"], data=tmp_path), []).evaluation.benchmarks
    assert folder["aime24"].path == str(tmp_path / "aime24.jsonl")
    alone = protocol_config(Request(data=tmp_path / "mine.jsonl"), []).evaluation.benchmarks
    assert (list(alone), alone["mine"].path, alone["mine"].template) == (
        ["mine"],
        str(tmp_path / "mine.jsonl"),
        "answer_line",
    )
    with pytest.raises(ConfigError, match="one file for 2 benchmarks"):
        protocol_config(Request(["aime24", "aime25"], data=tmp_path / "mine.jsonl"), [])
    with pytest.raises(ConfigError, match=r"there is no .*aime25\.jsonl"):
        protocol_config(Request(["aime25"], data=tmp_path), [])


def test_a_runs_protocol_takes_other_rules_by_their_name(tmp_path: Path) -> None:
    run = RunDir(tmp_path / ("0" * 16))
    run.write_config(yaml.safe_dump(dump(compose_run([]))))
    own = protocol_config(Request(), [run]).verifier
    named = protocol_config(Request(overrides=["verifier=answer_line", "verifier.form=value"]), [run]).verifier
    assert (own.extraction, named.extraction, named.form) == ("boxed", "answer_line", "value")


def test_what_a_stored_configuration_refers_to_is_not_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "{caps: [987654]}")
    values = dump(compose_run([])) | {"evaluation": "${oc.decode:${oc.env:A_TOKEN}}"}
    run = RunDir(tmp_path / ("0" * 16))
    run.write_config(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="evaluation") as refusal:
        protocol_config(Request(overrides=["evaluation.temperature=0.5"]), [run])
    assert "987654" not in str(refusal.value)
