"""Cold starts: made once, part of a run's identity, crossed with training seeds, and refused where they would teach nothing."""

from __future__ import annotations

import itertools
import json
import random
import re
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import finished
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from verbs import Said, jsonl

from harness.base_policy import _cold_start, pretrained
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, identity, run_id
from harness.configuration.schema import RunConfig
from harness.experiment.checks import refusals
from harness.experiment.planning import make_plan
from harness.model.checkpoint import read_state
from harness.model.system import Processor, content_fingerprint
from harness.problems.benchmarks import plain_words
from harness.problems.demonstrations import check_demonstrations, demonstrations
from harness.problems.problem import Demonstration, load_benchmark
from harness.store.lease import acquire
from harness.verify import MathVerifier, VerifierConfig

CHAT = (
    "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}\n{% else %}A:{{ m.content }}<end>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}A:{% endif %}"
)
RECIPE = ["model.cold_start.steps=3", "model.cold_start.demonstrations=6", "model.cold_start.batch=4"]
RECIPE += ["model.cold_start.learning_rate=1e-2"]
SIZES = ["task.problems=16", "evaluation.benchmarks.plain_words_heldout.problems=4", "evaluation.samples_per_problem=2"]
SIZES += ["algorithm.prompts_per_step=2", "algorithm.responses_per_prompt=2", "algorithm.updates_per_step=1"]
SIZES += ["training.steps=1", "sampling.max_response_tokens=6", "runtime.device=cpu", "model.precision=float32"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of few weights that reads characters, with a chat template; turns end with another token than texts."""
    folder = tmp_path_factory.mktemp("source")
    pieces = ["<pad>", "<eos>", "<end>", "?", *sorted({*string.printable} - {"?"})]
    core = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="?"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<eos>", pad_token="<pad>", additional_special_tokens=["<end>"]
    )
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    shape = LlamaConfig(
        vocab_size=len(pieces), hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        eos_token_id=[1, 2], pad_token_id=0, bos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(shape).to(torch.bfloat16).save_pretrained(folder)
    return folder


def composed(source: Path, *overrides: str) -> RunConfig:
    return compose_run(
        ["preset=cold_start", f"model.path={source}", "model.revision=null", *SIZES, *RECIPE, *overrides]
    )


def prepared(config: RunConfig, cache: Path, seed: int = 0) -> Path:
    return pretrained.prepare(config.model, config.task, seed, cache, "torch")


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every training that really happens."""
    seen: list[int] = []

    def train(*arguments: Any) -> list[float]:
        seen.append(1)
        return real(*arguments)

    real = _cold_start.train
    monkeypatch.setattr(_cold_start, "train", train)
    return seen


def test_a_cold_start_is_made_once_and_used_again(source: Path, tmp_path: Path, trainings: list[int]) -> None:
    config = composed(source, "model.cold_start.steps=12")
    folder = prepared(config, tmp_path)
    assert prepared(config, tmp_path, seed=5) == folder, "one base policy for all seeds"
    assert trainings == [1]
    assert content_fingerprint(source) != content_fingerprint(folder)
    losses = json.loads((folder / _cold_start.MANIFEST).read_text())["losses"]
    assert len(losses) == 12
    assert losses[-1] < 0.8 * losses[0]
    before, after = read_state(source), read_state(folder)
    assert before.keys() == after.keys()
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}, "as the checkpoint was"


def test_another_recipe_has_a_folder_of_its_own(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cold_start, "processor", lambda: Processor("", "", bfloat16=True))
    changes = ["steps=2", "demonstrations=5", "batch=3", "learning_rate=2e-2", "seed=1"]
    overrides = [[], *([f"model.cold_start.{change}"] for change in changes), ["model.precision=bfloat16"]]
    overrides += [['task.template="chat:{problem} And?"'], ["task.most=25"]]
    folders = [prepared(composed(source, *each), tmp_path) for each in overrides]
    assert len({*folders}) == len(overrides)
    assert len({content_fingerprint(folder) for folder in folders}) == len(overrides)


def test_a_processor_without_bfloat16_multiplies_in_float32(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cold_start, "processor", lambda: Processor("", ""))
    folders = [prepared(composed(source, *more), tmp_path) for more in ([], ["model.precision=bfloat16"])]
    assert folders[0] != folders[1]
    assert content_fingerprint(folders[0]) == content_fingerprint(folders[1])


def test_who_asks_at_once_waits_for_the_first(source: Path, tmp_path: Path, trainings: list[int]) -> None:
    config = composed(source)
    with ThreadPoolExecutor(4) as pool:
        folders = [*pool.map(lambda seed: prepared(config, tmp_path, seed), range(4))]
    assert len({*folders}) == 1
    assert trainings == [1]


def test_a_killed_cold_start_leaves_nothing_that_is_taken_for_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = composed(source)
    whole = prepared(config, tmp_path / "undisturbed")
    root = tmp_path / "cold_start" / whole.parent.name
    (root / ".policy.0123.tmp").mkdir(parents=True)  # a writer that was killed
    with monkeypatch.context() as patch:
        patch.setattr(_cold_start, "train", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepared(config, tmp_path)
    assert [path.name for path in root.iterdir()] == ["policy.lock"]
    acquire(root / "policy.lock").release()  # nobody holds it
    assert content_fingerprint(prepared(config, tmp_path)) == content_fingerprint(whole), "and the same is made"


def test_the_prompt_is_asked_as_in_training_and_the_response_ends_its_turn(source: Path) -> None:
    written = [Demonstration("one", "What?", "7", "3 + 4 = 7\nAnswer: 7")]
    task = plain_words.Config(template="chat:{problem} Go.")
    asked = _cold_start.as_benchmark(written, task)
    ((ids, prompt),) = _cold_start.encode_examples(source, asked, [written[0].response])
    tokenizer = _cold_start.load_tokenizer(source)
    characters = tokenizer.convert_ids_to_tokens(ids)
    assert "".join(characters[:prompt]) == "U:What? Go.\nA:"
    assert "".join(characters[prompt:]) == "3 + 4 = 7\nAnswer: 7<end>"
    whole = _cold_start.as_benchmark(written, plain_words.Config(template="{problem}"))
    ((ids, prompt),) = _cold_start.encode_examples(source, whole, ["7"])
    assert "".join(tokenizer.convert_ids_to_tokens(ids)) == "What?7<eos>"


def test_the_loss_is_the_mean_over_response_tokens_whatever_the_padding(source: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    rows = [([5, 6, 7, 8, 9], 2), ([9, 8, 7], 1), ([4, 5, 6, 7, 8, 9, 10, 11, 12], 8)]
    total = sum(len(ids) - prompt for ids, prompt in rows)
    by_hand = []
    for ids, prompt in rows:
        log_probs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        by_hand += [-log_probs[place - 1, ids[place]] for place in range(prompt, len(ids))]
    wanted = torch.stack(by_hand).mean()
    (wanted_gradient,) = torch.autograd.grad(wanted, [model.lm_head.weight])
    loss = sum(_cold_start._backward(model, part, total, bfloat16=False) for part in (rows[:2], rows[2:]))
    assert loss == pytest.approx(wanted.item(), rel=1e-5)
    torch.testing.assert_close(model.lm_head.weight.grad, wanted_gradient, rtol=1e-4, atol=1e-6)


def test_eight_base_policies_differ_and_seeds_take_them_in_turn(source: Path, tmp_path: Path) -> None:
    config = composed(source, "model.bases.count=8", "model.cold_start.steps=1")
    folders = [prepared(config, tmp_path, seed) for seed in range(10)]
    assert folders[8:] == folders[:2]
    assert len({content_fingerprint(folder) for folder in folders}) == 8
    drawn = [tuple(demonstrations(config.model.cold_start, config.task, base)) for base in range(8)]
    assert len({*drawn}) == 8
    alone = composed(source, "model.bases.first=3", "model.cold_start.steps=1")
    assert prepared(alone, tmp_path) == folders[3]


SEVERAL = ["preset=cold_start", "model.bases.count=8"]
ARMS = ["algorithm=grpo,dapo"]


def test_plans_know_how_many_base_policies_take_turns() -> None:
    plan = make_plan([*ARMS, "seed=range(16)", *SEVERAL], multirun=True)
    assert plan.base_policies == 8
    assert plan.shares_bases
    assert make_plan([*ARMS, "seed=range(4)", "preset=cold_start"], multirun=True).base_policies is None


def test_a_cold_start_is_no_part_of_the_id_of_a_run_without_one() -> None:
    assert "cold_start" not in identity(compose_run(["preset=language"]))["model"]


def test_every_field_of_a_cold_start_changes_the_id(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")]
    for file, answer in zip(files, "778", strict=True):
        file.write_text(json.dumps({"problem": "What is 3 and 4?", "answer": answer}))
    section = "model.cold_start"
    none = [f"{section}.steps=0", f"{section}.demonstrations=128", f"{section}.learning_rate=2e-5"]
    changes = [none, [], [f"{section}.steps=21"], [f"{section}.demonstrations=64"]]
    changes += [[f"{section}.batch=8"], [f"{section}.learning_rate=1e-5"], [f"{section}.seed=1"]]
    changes += [[f"{section}.path={files[0]}"], [f"{section}.path={files[2]}"]]
    changes += [["model.bases.count=8"], ["model.bases.first=1"]]
    ids = [arm_id(compose_run(["preset=cold_start", *each])) for each in changes]
    assert len({*ids}) == len(changes)
    same = [arm_id(compose_run(["preset=cold_start", f"{section}.path={file}"])) for file in files[:2]]
    assert same[0] == same[1], "the content counts, not the path"


def test_demonstrations_are_right_in_several_forms_and_never_held_out() -> None:
    config = compose_run(["preset=cold_start"])
    written = demonstrations(config.model.cold_start, config.task, 0)
    assert written == demonstrations(config.model.cold_start, config.task, 0)
    assert len({each.problem for each in written}) == config.model.cold_start.demonstrations
    check_demonstrations(written, config.verifier, config.evaluation.benchmarks)
    heldout = plain_words.Config(split="heldout", most=40, problems=1000, kinds=["sum", "difference"], template="plain")
    asked = {problem.prompt for problem in load_benchmark(heldout).problems}
    assert not asked & {each.problem for each in written}
    forms = {"".join("N" if c.isdigit() else c for c in each.response.replace("\n", " ")) for each in written}
    assert len(forms) > 12
    assert all(each.response.splitlines()[1:] == [f"Answer: {each.answer}"] for each in written)


@pytest.mark.parametrize("wording", ["words", "expressions"])
def test_every_kind_of_question_is_demonstrated(wording: str) -> None:
    task = plain_words.Config(wording=wording, kinds=[*plain_words.KINDS], most=50)
    written = plain_words.demonstrate(task, 100, random.Random(0))
    with MathVerifier(VerifierConfig(extraction="answer_line", answer_must_end=False)) as verifier:
        verdicts = verifier.verify_many([(e.response, e.answer) for e in written], [e.problem for e in written])
    assert {verdict.verdict for verdict in verdicts} == {"right"}


def rows(count: int) -> Iterator[dict[str, Any]]:
    for a in itertools.islice(itertools.count(100), count):
        yield {"problem": f"Add {a} and 1.", "answer": a + 1, "response": f"{a} + 1 = {a + 1}\nAnswer: {a + 1}"}


def test_demonstrations_of_ones_own_come_from_a_file(source: Path, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "own.jsonl", [*rows(9)])
    config = composed(source, f"model.cold_start.path={file}", "model.bases.count=2")
    drawn = [demonstrations(config.model.cold_start, config.task, base) for base in range(2)]
    assert [len({each.id for each in side}) for side in drawn] == [6, 6]
    assert drawn[0] != drawn[1]
    assert f"{file} line" in drawn[0][0].id
    assert refusals(config) == []
    assert prepared(config, tmp_path) != prepared(composed(source), tmp_path)
    short = jsonl(tmp_path / "short.jsonl", [{"problem": "Add 1 and 1.", "answer": "Answer: 2"}] * 6)
    (each,) = {(e.answer, e.response) for e in demonstrations(pretrained.ColdStart(1, 6, path=str(short)), None, 0)}
    assert each == ("Answer: 2", "Answer: 2")


HELD_OUT = load_benchmark(plain_words.Config(split="heldout", problems=4, most=40, template="plain")).problems[2]
TOLD = {"problem": HELD_OUT.prompt, "answer": HELD_OUT.gold, "response": f"Answer: {HELD_OUT.gold}"}
SIX = [*rows(6)]
WRONG = {"problem": "Add 100 and 5.", "answer": "105", "response": "100 + 1 = 102\nAnswer: 102"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([*SIX[:4], WRONG, SIX[5]], r"line 5: verifier=answer_line calls the response .*wrong \(answer '105'\)"),
        ([*SIX[:5], TOLD], r"line 6 is a problem of the benchmark plain_words_heldout; leave it out$"),
        (SIX[:2], "has 2 lines; lower model.cold_start.demonstrations"),
        ([{"problem": "What?", "response": "7"}], "line 1 has no answer"),
        ([{"problem": "p", "answer": 7, "response": [{"role": "user"}]}], "line 1: response must be a text"),
    ],
)
def test_files_that_are_no_demonstrations_are_refused(
    source: Path, tmp_path: Path, lines: list[dict[str, Any]], says: str
) -> None:
    file = jsonl(tmp_path / "mine.jsonl", lines)
    (reason,) = refusals(composed(source, f"model.cold_start.path={file}"))
    assert str(file) in reason
    assert re.search(says, reason, re.DOTALL), reason


def test_demonstrations_that_are_missing_or_in_another_form_are_refused(source: Path, tmp_path: Path) -> None:
    assert refusals(composed(source)) == []
    (reason,) = refusals(composed(source, "verifier=boxed"))
    assert "verifier=boxed calls the response" in reason
    assert "no_answer" in reason
    with pytest.raises(ConfigError, match=r"none\.jsonl: No such file or directory; give a JSONL file"):
        run_id(composed(source, f"model.cold_start.path={tmp_path / 'none.jsonl'}"))


def test_a_model_without_a_chat_template_is_refused_before_it_is_trained(
    source: Path, tmp_path: Path, trainings: list[int]
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for path in source.iterdir():
        if path.suffix != ".jinja":
            (bare / path.name).symlink_to(path)
    with pytest.raises(ConfigError, match="demonstrations asks in chat turns, but this tokenizer has no chat template"):
        prepared(composed(bare), tmp_path)
    assert not trainings


def test_a_rate_that_diverges_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"diverged; lower model\.cold_start\.learning_rate=1e\+30"):
        prepared(composed(source, "model.cold_start.learning_rate=1e30"), tmp_path)


def test_a_run_begins_from_its_cold_start(source: Path, tmp_path: Path) -> None:
    config = composed(source, f"runtime.results={tmp_path}")
    run = finished(config, tmp_path)
    assert len(run.steps()) >= 1
    (folder,) = (tmp_path / "cache" / "cold_start").glob("*/policy")
    assert prepared(config, tmp_path / "cache") == folder


def test_plan_asks_the_policy_after_its_cold_start_on_request(source: Path, tmp_path: Path, said: Said) -> None:
    small = ["preset=cold_start", f"model.path={source}", "model.revision=null", *SIZES, *RECIPE]
    told = said("plan", "--sample", *small, f"runtime.results={tmp_path}")
    assert "before training, all arms: 0 % of 32 answers are right" in told


def test_one_device_that_cannot_hold_it_is_named_before_training(
    source: Path, tmp_path: Path, trainings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cold_start, "_device_bytes", lambda: 1000)
    with pytest.raises(ConfigError, match=r"trains all weights in float32 on one device: .* GiB of 0.0 GiB"):
        prepared(composed(source), tmp_path)
    assert not trainings
