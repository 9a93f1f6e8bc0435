"""Members of one's own: found beside the package's, part of the identity by content, checked, and blamed by file and line."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tables import table
from verbs import Said

from harness.commands.evaluate import verifier_config
from harness.configuration import user_code as own
from harness.configuration.compose import compose_run, config_dir
from harness.configuration.error import ConfigError
from harness.configuration.identity import run_id
from harness.configuration.schema import RunConfig, load, portable
from harness.experiment.checks import check_plan
from harness.experiment.declaration import as_file
from harness.experiment.planning import plan_experiment
from harness.explain.shares import explain_one, make_group

HEAD = """from dataclasses import dataclass
from harness.objective.{family} import {base}
@dataclass
class Config({base}):
    kind: str = '{kind}'
    scale: float = 1.0
"""
MEDIAN = """    def advantages(self, batch):
        returns = batch.returns_PG
        centred = (returns - returns.median(1, keepdim=True).values) * batch.counted_PG
        return batch.per_token(self.scale * centred)
"""
BASES = {"advantage": "Advantage", "surrogate": "Surrogate", "aggregation": "Aggregation", "kl": "KlPenalty"}
BASES |= {"weighting": "Weighting"}


def head(member: str) -> str:
    """The beginning of a member of the objective, such as `objective/advantage/median`."""
    family, kind = member.split("/")[-2:]
    return HEAD.format(family=family, base=BASES[family], kind=kind) if family in BASES else ""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What a test makes known is not known to the next."""
    yield
    own.FILES.clear()


def write(where: Path, member: str, text: str, group: str = "") -> Path:
    """A member in Python, such as `objective/advantage/median`, and its YAML in a group that defaults to `algorithm/...`."""
    family, kind = member.rsplit("/", 1)
    code, choice = (where / f"{member}.py", where / (group or f"algorithm/{family.split('/')[-1]}") / f"{kind}.yaml")
    for path, content in ((code, head(member) + text), (choice, f"kind: {kind}\n")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return code


def composed(*places: Path, choice: str = "algorithm/advantage=median", seed: int = 0) -> RunConfig:
    with config_dir(*map(str, places)):
        return compose_run([choice, f"seed={seed}"])


@pytest.mark.parametrize("group", ["patch", "rung", "preset"])
def test_a_file_that_does_not_say_where_its_keys_belong_is_named(tmp_path: Path, group: str) -> None:
    path = tmp_path / group / "short.yaml"
    path.parent.mkdir()
    path.write_text("# three steps\ntraining:\n  steps: 3\n")
    with pytest.raises(ConfigError, match="the file that says so must begin with the line `# @package _global_`"):
        composed(tmp_path, choice=f"{group}=short")
    path.with_stem("placed").write_text(f"# @package _global_\n{path.read_text()}")
    assert composed(tmp_path, choice=f"{group}=placed").training.steps == 3


def test_an_experiment_or_a_claim_in_the_wrong_place_is_named(tmp_path: Path, said: Said) -> None:
    for group, head in (("experiment", "# @package _global_"), ("claim", "# one")):
        (tmp_path / group).mkdir()
        (tmp_path / group / "mine.yaml").write_text(f"{head}\nname: mine\narms: [{{name: a}}]\n")
        text = said("plan", "--config-dir", str(tmp_path), f"{group}=mine", code=2)
        assert f"{group}=mine declares nothing: its file needs `# @package _global_`" in text
    (tmp_path / "experiment" / "mine.yaml").write_text("experiment:\n  name: mine\n  arms: [{name: a}]\n")
    text = said("plan", "--config-dir", str(tmp_path), "experiment=mine", code=2)
    assert "unknown key 'experiment.experiment'; the file that says so must begin with the line `# @package" in text


def test_the_rules_of_ones_own_verifier_are_found(tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / "mine.yaml").write_text("extraction: answer_line\n")
    with config_dir(str(tmp_path)):
        assert verifier_config({"verifier": "mine"}).extraction == "answer_line"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    write(tmp_path / "mine", "objective/advantage/median", MEDIAN)
    return tmp_path / "mine"


def test_the_content_of_the_code_is_the_identity_and_its_place_is_not(mine: Path, tmp_path: Path) -> None:
    first = composed(mine)
    shutil.copytree(mine, tmp_path / "copy")
    assert run_id(composed(tmp_path / "copy")) == run_id(first)
    assert first.runtime.config_dir == [str(mine)]
    shutil.copytree(mine, tmp_path / "edited")
    edited = tmp_path / "edited/objective/advantage/median.py"
    edited.write_text(edited.read_text().replace("median(1", "nanmedian(1"))
    assert run_id(composed(tmp_path / "edited")) != run_id(first)
    plain = compose_run([])
    with config_dir(str(mine)):
        assert run_id(compose_run([])) == run_id(plain)
    assert plain.runtime.config_dir == []


def test_a_run_of_other_code_is_not_trained(tmp_path: Path) -> None:
    path = write(tmp_path, "objective/advantage/mine", MEDIAN)
    config = composed(tmp_path, choice="algorithm/advantage=mine")
    stored = portable(config)
    assert run_id(load(stored)) == run_id(config)
    path.write_text(path.read_text() + "# edited\n")
    with pytest.raises(ConfigError, match=r"algorithm\.advantage=mine is of other code \(\w{16}\) than now"):
        load(stored)
    path.unlink()
    own.FILES.clear()
    with pytest.raises(ConfigError, match="has no member 'mine'"):
        load(stored)


@table(__file__, "refused", "member, text, says")
def test_a_member_that_cannot_be_one_is_refused(member: str, text: str, says: str, tmp_path: Path) -> None:
    write(tmp_path, "objective/advantage/other", MEDIAN)
    (tmp_path / f"{member}.py").write_text(head(member) + text.replace("MEDIAN\n", MEDIAN))
    (tmp_path / "algorithm/advantage/median.yaml").write_text("kind: median\n")
    with pytest.raises(ConfigError, match=says):
        composed(tmp_path)


def test_two_members_of_one_name_are_refused(mine: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "theirs", "objective/advantage/median", MEDIAN)
    (tmp_path / "theirs/algorithm/advantage/median.yaml").unlink()
    (tmp_path / "theirs/algorithm/advantage/more.yaml").write_text("kind: median\n")
    with pytest.raises(ConfigError, match=f"{other} and .* are two members of one name"):
        composed(mine, tmp_path / "theirs")


CAPPED = """    cap: float = 1.5
    far_tokens = "kept"
    ratio_keys = ("cap", "scale")
    def token_loss(self, logprobs_N, log_ratio_N, batch):
        return -log_ratio_N.detach().exp().clamp(max=self.cap) * batch.advantages_N * logprobs_N
    def clipped(self, logprobs_N, ratio_N, batch):
        return ratio_N != ratio_N, ratio_N > self.cap
"""
EXPERIMENT = as_file("""\
name: mine
title: A new surrogate
question: Does it do anything?
design: arms
seeds: [0, 1]
overrides: [algorithm.updates_per_step=1]
arms:
  - {name: clip, overrides: []}
  - {name: cap, parent: clip, overrides: [algorithm/surrogate=capped]}
  - {name: wider, parent: cap, overrides: [algorithm/surrogate=capped, +algorithm.surrogate.cap=3]}
""")


def test_checks_engagement_and_explain_know_a_surrogate_by_what_it_says_of_itself(tmp_path: Path) -> None:
    write(tmp_path, "objective/surrogate/capped", CAPPED)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(EXPERIMENT)
    with config_dir(str(tmp_path)):
        plan = plan_experiment(["experiment=mine"])
    found = {(finding.arm, finding.check) for finding in check_plan(plan)}
    # with one update a step the ratio is 1: the member does nothing of its own, and its cap is inert
    assert {("cap", "inert clip"), ("wider", "nothing that matters changes")} <= found
    (measure,) = plan.arm("cap").engagement
    assert (measure.name, measure.arm) == ("tokens clipped", "clip")
    group = make_group([1.0, 0.0], [3, 3], [-1.0, -1.0], [0.0, -1.0])  # a ratio of e, cut to 1.5
    shares = [rollout.share for rollout in explain_one(group, plan.arms[1].config.algorithm)]
    assert shares == pytest.approx([0.6, 0.4])
