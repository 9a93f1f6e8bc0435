"""What a command would ignore, or cannot do, it refuses in one line; what it shows is what the store holds."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
from commands_support import EXPERIMENT, finish, plan

from harness.cli import main
from harness.commands._answer import answer_key, answer_stands, report_of, sign_answer
from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id
from harness.experiment.power import Power, seed_spread
from harness.statistics.intervals import comparison_level, minimum_detectable_difference
from harness.store import atomic

SEARCH = ["run", "-m", "hydra/sweeper=search"]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["run", "-m", "experiment=aa,dapo_ladder"], "each is a whole declaration; name one of them"),
        (["plan", "-m", "experiment=aa,dapo_ladder"], "each is a whole declaration; name one of them"),
        (["run", "-m", EXPERIMENT, "seed=0,1,2"], "the seeds of an experiment are 'experiment.seeds=[0,1,2]'"),
        (["run", "-m", "rung=glob(nope_*)"], "a glob found nothing"),
        (["plan", "-m", "seed=range(3,0)"], "or a range is empty"),
        (["plan", EXPERIMENT, 'experiment.name="../../evil"'], "experiment.name"),
        (["plan", "model=qwen25_7b", "model.warmup.steps=3"], "it is of another choice of model="),
        (["plan", "algorithm=vapo", "patch=centred_advantage"], "patch=centred_advantage may set it"),
        (["plan", "patch=[clip_higher,value_pretraining]"], "patch=[clip_higher,value_pretraining] may set it"),
        (["report", "experiment=dapo_lader", "runtime.results=/no/such"], "did you mean 'dapo_ladder', which is declared and was not run"),
        (["report", "experiment=dapo_ladder", "runtime.results=/no/such"], "dapo_ladder runtime.results=/no/such"),
        (["report", "runtime.results=/no/such"], "/no/such (there is no such folder) holds none yet"),
        (["report", "experiment=none_of_them", "runtime.results=/no/such"], "holds no experiment 'none_of_them'; there is none yet"),
        (["report", EXPERIMENT, "experiment.seeds=0,1"], "report reads what was run and takes no experiment.seeds=; it takes only=, "),
        (["report", EXPERIMENT, "only=table", "formats=gif"], "formats: no gif; choose from"),
        (["report", EXPERIMENT, "only=figures", "formats="], "formats= names none; give formats=pdf,png"),
        (["report", EXPERIMENT, "only=methods", "--notes"], "--notes adds tables to the answer on the terminal, and only="),
        (["report", EXPERIMENT, "only=table", "only=page"], "report: only= is given twice"),
        (["compare", "abcd,", "b"], "compare: abcd,: no such file or folder, and no run of results"),
        (["compare", "a", "b", "cap=2026-02-30"], "compare: cap=2026-02-30 is not YAML; quote the value"),
        (["plan", "task.kind=[a]"], "task.kind=['a'] is no name; choose one of: arithmetic"),
        (["plan", "runtime.verifier_workers=-3"], "runtime.verifier_workers=-3 must be at least 1"),
        (["plan", "-m", "algorithm=grpo", "seed=²"], "seed"),
        (["run", "algorithm.reward.correct=inf"], "algorithm.reward.correct=inf is not finite"),
        (["plan", "algorithm.reward.correct=-1"], "algorithm.reward.correct=-1 must be above algorithm.reward.wrong=-1"),
        (["plan", "algorithm.positive_nll_coefficient=-1"], "algorithm.positive_nll_coefficient=-1.0 must be at least 0"),
        (["plan", "optimizer.beta1=1"], "optimizer.beta1=1.0 must be between 0 and 0.99999"),
        ([*SEARCH, "optimizer.learning_rate=interval(1e-4,2e-4)", "seed=3"], "hydra.sweeper.seeds=[3]"),
        (["plan", "experiment=aa", "++experiment.arms=[{overrides:[]}]"], "experiment.arms[0] needs a name"),
        (["plan", "experiment=aa", "++experiment.arms=[{name:a,seeds:[1,x]}]"], "experiment.arms[0].seeds[1] must be int"),
        (["plan", "experiment=aa", "++experiment.arms=[{name:a,seeds:[-1]}]"], "experiment.arms[0].seeds=-1 must be between 0 and"),
        (["plan", "experiment=aa", "++experiment.arms=[{name:a,seeds:[1,1]}]"], "experiment.arms[0].seeds=[1, 1] names a seed twice"),
        (["plan", "experiment=aa", "++experiment.arms=[{name:a,overrides:['seed=7']}]"], "arms[0].overrides: seed=7 would be overridden"),
        (["plan", "experiment=aa", "experiment.overrides=['++seed=7']"], "experiment.overrides: ++seed=7 would be overridden"),
        (["plan", "experiment=dapo_factorial", "experiment.base=['seed=7']"], "experiment.base: seed=7 would be overridden"),
        (["plan", EXPERIMENT, "experiment.grid=['seed=1,2']"], "experiment.grid: seed=1,2 would be overridden"),
        (["run", "experiment=clip_lr_search", "experiment.search.space=['seed=range(0,4)']"], "space: seed=range(0,4) would be"),
        (["run", "experiment=clip_lr_search", "experiment.search.seed=-1"], "experiment.search.seed=-1 must be between 0 and"),
        ([*SEARCH, "experiment=clip_lr_search", "hydra.sweeper.trials=40"], "this one is declared; set experiment.search.trials="),
        ([*SEARCH, "experiment=clip_lr_search", "hydra.sweeper.seeds=[1]"], "this one is declared; set experiment.seeds="),
        ([*SEARCH, "experiment=aa"], "experiment 'aa' declares no search; hydra/sweeper=search needs experiment.search"),
        (["plan", "experiment=dapo_ladder", "match=tokens", "experiment.match_budget=inf"], "match_budget=inf must be a finite number"),
        (["status", "training.steps=3"], "stored runs are what they are"),
        (["status", "abcd"], "no run in"),
        (["rnu"], "no verb 'rnu'; did you mean 'run'?"),
        (["plan", "optimizer.lr=1"], "unknown key 'optimizer.lr'; choose one of: beta1, beta2, decay,"),
        (["plan", "algorithm.clip_high=1"], "did you mean 'algorithm.surrogate.clip_high'?"),
        (["keys", "nothing.x"], "there is no key 'nothing.x'; `harness keys` names the sections"),
        (["run", "patch=clip_higher", "patch=[token_level_loss]"], "give patch=[clip_higher,token_level_loss]"),
        (["plan", "-m", "algorithm=grpo,dapo", "algorithm=cispo"], "algorithm=cispo: the second would take the place of the first"),
        (["plan", "patch=[clip_higher,clip_higher]"], "clip_higher stands twice; keep one of them"),
        (["plan", EXPERIMENT, "preset=clipping", "preset=upper_clip"], "keep one of them"),
        (["translate", "to=trl", "algorithm=grpo", "algorithm=dapo"], "keep one of them"),
        ([*SEARCH, "training.steps=choice(1,2)", "model=testbed", "model=pretrained"], "keep one of them"),
        (
            ["plan", "experiment=aa", "++experiment.arms=[{name:a,overrides:['rung=a','rung=b']}]"],
            "experiment.arms[0].overrides: rung=a rung=b",
        ),
        (["plan", "experiment=dapo_ladder", "rung=dapo_2_clip_higher"], "would replace what the arms differ in under their names"),
        (["plan", "experiment=dapo_one_factor", "patch=clip_higher"], "no patch= (base), patch=[overlong_filtering]"),
        (["plan", "engine=vllm", "engine.gpu_memory_utilisation=0.4"], "did you mean 'gpu_memory_utilization'?"),
        (["run", "-m", "hydra/launcher=jobli", "seed=0,1"], "Could not find 'hydra/launcher/jobli'"),
        (["run", "hydra.job.chdir=true"], "relative to where you call"),
        (["run", "hydra.run.dir=elsewhere"], "set runtime.results=DIR instead"),
        (["run", "hydra.sweep.subdir=elsewhere", "-m", "seed=0,1"], "set runtime.results=DIR instead"),
        (["run", "--resolve"], "--resolve flag can only be used"),
        (["run", "--config-name=other"], "every run is composed from config.yaml"),
        (["run", "+absent=1"], "unknown key 'absent'"),
        # A key that exists only in a group which the experiment chooses for its arms.
        (["run", "experiment=language_ladder", "model.precision=half"], "model.precision='half' is not known"),
        (["run", "experimnt=dapo_ladder"], "unknown key 'experimnt'; did you mean 'experiment'?"),
        (["run", "dapo_ladder"], "'dapo_ladder' is no key=value; did you mean experiment=dapo_ladder?"),
        (["plan", "clip_highr"], "'clip_highr' is no key=value; did you mean patch=clip_higher?"),
        (["plan", "experiment"], "give KEY=VALUE, for example experiment=NAME"),
        (["plan", "foo.bar"], "'foo.bar' is no key=value; give KEY=VALUE"),
        (["plan", EXPERIMENT, "experiment.seeds=3"], "'experiment.seeds=[3]' for the seed 3 alone, 'experiment.seeds=[0,1,2]' for three"),
        (["plan", EXPERIMENT, "experiment.seeds.first=16"], "experiment.seeds.first=16: what .first stands in is a list"),
        (["run", "evaluation.caps.first=3"], "evaluation.caps.first=3: what .first stands in is a list"),
        (["plan", EXPERIMENT, "experiment.base=[algorithm=dapo]"], "quote the texts in it, as in 'experiment.base=["),
        (["plan", EXPERIMENT, "runtime.results=/tmp/é#1"], "as in 'runtime.results=\"/tmp/é#1\"'"),
        (["run", "-m", EXPERIMENT, "optimizer.learning_rate=1e-4,2e-4"], "an experiment takes one value for all its arms"),
        (["run", "-m", EXPERIMENT, "seed=range(8)"], "the seeds of an experiment are 'experiment.seeds=[0,1]'"),
        (["run", "-m", "optimizer.learning_rate=interval(5e-5,1e-3)"], "add hydra/sweeper=search"),
        (["plan", EXPERIMENT, "match=tokens", "optimizer.decay=linear"], "experiment.match=tokens with optimizer.decay=linear"),
        (["plan", "experiment=dapo_factorial", "algorithm.surrogate.clip_high=0.25"], "patch 'clip_higher' writes it, and so does an"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_or_cannot_be_is_one_line(said, command, says):
    words = said(*command, code=2)
    assert says in words
    assert len(words.strip().splitlines()) == 1


def test_a_malformed_command_is_one_line_that_names_its_help(capsys):
    for command in ([], ["merge"], ["status", "--foo"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"see `{' '.join(['harness', *command[:1]])} --help`" in said


def test_power_of_independent_seeds_is_welchs(store):
    planned = plan(store, "experiment.paired=false", "experiment.seeds=[0,1]")
    for arm, accuracies in zip(planned.arms, [(0.5, 0.52), (0.6, 0.64)], strict=False):
        for seed, accuracy in zip(arm.runs, accuracies, strict=True):
            finish(store, arm.spec(seed), accuracy)
    found, (spread, _) = Power(planned), seed_spread(planned, store)
    sd = math.sqrt((2 * 0.01**2 + 2 * 0.02**2) / 2)
    assert spread == pytest.approx(sd)
    alpha = 1 - comparison_level(found.comparisons)
    assert found.resolvable(spread) == pytest.approx(minimum_detectable_difference(sd, 2, paired=False, alpha=alpha))


def test_equal_content_has_one_id():
    def id_of(*more: str) -> str:
        return arm_id(compose_run(more))

    assert id_of("evaluation.caps=[64,32]") == id_of("evaluation.caps=[32,64]") == id_of()
    assert id_of("optimizer.weight_decay=-0.0") == id_of("optimizer.weight_decay=0.0")


def test_an_answer_stands_until_the_question_or_its_finished_runs_are_others(store):
    """Modification times tell nothing: a clock may be set back."""
    planned = plan(store, "experiment.seeds=[0]")
    name, folder = planned.name, store.root / "experiments" / planned.name
    store.write_plan(name, planned.record())
    finish(store, planned.specs[0])
    (folder / "tables").mkdir()
    (folder / "tables" / "a.csv").touch()
    assert not answer_stands(store, name)  # interrupted before the page
    (folder / "report.html").write_text("<html></html>\n")
    sign_answer(store, name, answer_key(store, name))
    for path in (folder / "report.html", folder / "tables" / "a.csv"):
        os.utime(path, (4e9, 4e9))  # drawn while a clock was ahead
    assert answer_stands(store, name)
    store.write_plan(name, {**planned.record(), "command": "the same question, asked another time"})
    assert answer_stands(store, name)
    finish(store, planned.specs[1])
    assert not answer_stands(store, name)
    sign_answer(store, name, answer_key(store, name))
    store.write_plan(name, plan(store, "experiment.seeds=[0,1]").record())
    assert not answer_stands(store, name)


def test_a_new_answer_takes_the_files_of_the_old_one_away_and_nothing_else(store):
    planned = plan(store, "experiment.seeds=[0]", 'experiment.grid=["optimizer.learning_rate=1e-4"]')
    name, folder = planned.name, store.root / "experiments" / planned.name
    store.write_plan(name, planned.record())
    for spec in planned.specs:
        finish(store, spec)
    report_of(store, name, formats="svg")
    old_files = [folder / "figures" / "training" / "reward.pdf", folder / "tables" / f"{name}-answers.tex"]
    own_file = folder / "tables" / f"{name}-mine.tex"
    for path in (*old_files, own_file):
        atomic.write_file(path, b"")
    report_of(store, name, formats="svg")  # of the same question and runs: what was asked for in another command stays
    assert all(path.exists() for path in old_files)
    store.write_plan(name, planned.record() | {"title": "Another question"})
    report_of(store, name, formats="svg")
    assert not any(path.exists() for path in old_files)
    assert own_file.exists()


@pytest.mark.parametrize(
    ("part", "option"),
    [("table", "columns=score"), ("table", "out=x"), ("tables", "style=screen"), ("page", "tables=all")],
)
def test_a_report_refuses_options_that_its_part_does_not_use(store, said, part, option):
    planned = plan(store)
    store.write_plan(planned.name, planned.record())
    told = said("report", EXPERIMENT, f"only={part}", option, f"runtime.results={store.root}", code=2)
    assert f"only={part} has no use for {option.partition('=')[0]}=" in told


def test_status_lists_finished_runs_on_demand(store, said):
    spec = plan(store).arms[0].spec(0)
    finish(store, spec)
    assert spec.run_id not in said("status", f"runtime.results={store.root}")
    assert spec.run_id in said("status", "--runs", f"runtime.results={store.root}")
    assert "there is no folder /no/such" in said("status", "runtime.results=/no/such")


def test_a_reader_that_stops_reading_ends_a_command_quietly(store):
    command = f"{sys.executable} -m harness plan {EXPERIMENT} | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_results_root_under_a_file_is_one_line(tmp_path, said):
    (tmp_path / "file").write_text("x")
    under = f"runtime.results={tmp_path / 'file' / 'results'}"
    assert "cannot write" in said("run", "training.steps=1", under, code=2)


def test_a_run_without_its_configuration_is_one_line(store, said):
    spec = plan(store).arms[0].spec(0)
    finish(store, spec)
    (store.run(spec.run_id).path / "config.yaml").unlink()
    assert "config.yaml is missing" in said("status", spec.run_id, f"runtime.results={store.root}", code=2)
