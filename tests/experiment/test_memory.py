"""Bytes on a GPU: hand-worked on a tiny shape, and against what autograd really keeps."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.base_policy import pretrained
from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.configuration.sections import GIB
from harness.experiment import memory
from harness.experiment.memory import (
    activation_bytes,
    awake_engine,
    computer_memory,
    logit_bytes,
    memory_lines,
    plant_of,
    resident_bytes,
    rollout_memory,
    update_memory,
)
from harness.model import scoring
from harness.model.shapes import SHAPES, ModelSize, from_config, shape_of
from harness.model.system import Processor
from harness.rollout.engine import native, transformers, vllm

TINY = ModelSize(hidden=4, intermediate=8, layers=2, query=4, key_value=2, vocabulary=10, tied=False, positions=64)


def config(**runtime: object) -> RunConfig:
    """A run of some pretrained model on GPUs, with a micro-batch of 16 tokens."""
    run = RunConfig(model=pretrained.Config(path="Qwen/Qwen2.5-7B"))
    run.runtime.device = "cuda"
    run.sampling.max_response_tokens = 8
    run.runtime.assumed.prompt_tokens = 1
    run.runtime.micro_batch_tokens = 16
    for key, value in runtime.items():
        setattr(run.runtime, key, value)
    return run


def test_an_update_by_hand():
    parts = update_memory(config(), TINY, ranks=2)
    layer = 8 * 2 * 4 + 2 * 2 * (4 + 2) + 4 * 2 * 8  # two norms, attention, feed-forward: bytes of a token
    assert parts == {
        "weights": 4 * 388 / 2,
        "gradients": 4 * 388 / 2,
        "moments": 8 * 388 / 2,
        "gathered": 2 * (84 + 2 * 152) + 6 * 2 * 152,
        "activations": 16 * 2 * layer,
        "logits": 12 * 160 + 2 * 160,
    }
    assert resident_bytes(parts) == 16 * 388 / 2


@pytest.mark.parametrize(
    ("key", "value", "ranks", "parts"),
    [
        # one hidden state a layer, and one layer
        ("runtime.gradient_checkpointing", True, 2, {"activations": 16 * (2 * 2 * 4 + 152), "logits": 14 * 160 + 4 * 40}),
        # the longest response sets the micro-batch
        ("runtime.micro_batch_tokens", 2, 1, {"activations": activation_bytes(TINY, 9, 2, False)}),
        # gradients and moments are of the adapters alone; what is frozen has the precision of the products
        (
            "model.lora.rank", 1, 1,
            {"weights": 2 * 388 + 4 * 128, "gradients": 4 * 128, "moments": 8 * 128, "gathered": 2 * (84 + 2 * 152)},
        ),
        ("algorithm.kl.coefficient", 0.1, 4, {"reference": 2 * 388 / 4}),
    ],
)  # fmt: skip
def test_what_a_choice_changes_of_an_update(key: str, value: object, ranks: int, parts: dict[str, float]):
    run = config()
    section, _, name = key.rpartition(".")
    setattr(operator.attrgetter(section)(run), name, value)
    found = update_memory(run, TINY, ranks)
    assert {name: found[name] for name in parts} == parts


def test_an_engine_of_its_own_leaves_the_rest_to_keys_and_values():
    run = config()
    run.engine = native.Config()
    plant = plant_of(run, memory_gib=1.0)
    rollout = rollout_memory(run, TINY, plant, resident=1000.0)
    assert rollout.engine == 2 * 388
    assert rollout.cache == plant.usable - 1000 - 776
    assert rollout.fits


def test_the_native_engine_makes_room_for_the_head_of_every_position():
    run, native_run = config(rollout_rows=1000), config(rollout_rows=1000)
    native_run.engine = native.Config()
    for each in (run, native_run):
        each.algorithm = compose_run(["algorithm=score_centering", "algorithm.surrogate.head=3"]).algorithm
    plant = plant_of(native_run, memory_gib=1.0)
    head = 1000 * 8 * 3 * (4 + 4)  # rows, positions, tokens, a log-probability and an id
    cache = 1000 * TINY.cache_bytes(9)
    assert rollout_memory(native_run, TINY, plant, 0.0).needed_cache == cache + head
    assert computer_memory(native_run, TINY)["head"] == head
    run.engine = vllm.Config()
    assert rollout_memory(run, TINY, plant, 0.0).needed_cache == TINY.cache_bytes(9)


def test_engines_of_our_own_keep_their_weights_during_updates():
    run = config(rollout_rows=10)
    plant = plant_of(run, memory_gib=1.0)
    for own in (native, transformers):
        run.engine = own.Config()
        assert awake_engine(run, TINY, plant) == 2 * 388
    run.engine = vllm.Config()
    assert awake_engine(run, TINY, plant) == 0
    run.engine.sleep_level = 0
    assert awake_engine(run, TINY, plant) == 0.5 * GIB


def test_vllm_takes_its_share_and_must_find_it_free():
    run = config()
    run.engine = vllm.Config(gpu_memory_utilization=0.5)
    plant = plant_of(run, memory_gib=1.0)
    rollout = rollout_memory(run, TINY, plant, resident=0.4 * GIB)
    assert rollout.engine + rollout.cache == pytest.approx(0.5 * GIB)
    assert rollout.fits
    assert not rollout_memory(run, TINY, plant, resident=0.5 * GIB).fits


def test_an_engine_over_several_gpus_is_sharded():
    run = config(gpus_per_run=8)
    run.engine = vllm.Config(tensor_parallel=4)
    plant = plant_of(run, memory_gib=1.0)
    assert plant.engine_gpus == 4
    assert rollout_memory(run, TINY, plant, 0.0).engine == 2 * 388 / 4


def test_runs_that_share_a_gpu_share_its_memory():
    alone, shared = plant_of(config(), 8.0), plant_of(config(runs_per_gpu=4), 8.0)
    assert shared.usable == alone.usable / 4
    assert shared.memory == alone.memory  # vLLM's share is one of the whole GPU
    many = plant_of(config(gpus_per_run=8, nodes=2), 8.0)
    assert (many.gpus, many.ranks) == (16, 16)


@pytest.mark.parametrize(
    ("name", "tolerance"), [("qwen2.5-0.5b", 0.01), ("llama-3.2-1b", 0.01), ("qwen3-0.6b", 0.12), ("olmo3-7b", 0.12)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_activations_are_what_autograd_keeps(name, tolerance, dtype):
    def kept(layers: int) -> float:
        return _kept_bytes_per_token(values | {"num_hidden_layers": layers}, dtype)

    values = dict(SHAPES[name]) | {
        "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 32, "vocab_size": 64, "max_position_embeddings": 512,
    }  # fmt: skip
    shape = from_config(values | {"num_hidden_layers": 1})
    assert kept(3) - kept(2) == pytest.approx(activation_bytes(shape, 1, dtype.itemsize, False), rel=tolerance)


def _kept_bytes_per_token(values: dict[str, object], dtype: torch.dtype, tokens: int = 64) -> float:
    """Bytes of all tensors saved for backward by the decoder layers, parameters apart."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = dict(values)
    rope = {"rope_type": "default", "rope_theta": values.pop("rope_theta")}
    config = AutoConfig.for_model(
        values.pop("model_type"), **values, rope_parameters=rope, eos_token_id=None, pad_token_id=None
    )
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        ids = torch.zeros(1, tokens, dtype=torch.long)
        out = model.model(input_ids=ids, use_cache=False).last_hidden_state
    assert out.requires_grad
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values()) / tokens


def test_logits_of_a_real_vocabulary_come_in_chunks():
    shape, head = from_config(SHAPES["qwen2.5-7b"]), 152064 * 3584
    whole = logit_bytes(shape, 16384, 2, recompute=False, chunk=2**27)
    assert whole == 12 * 2**27 + 2 * 16384 * 152064
    assert logit_bytes(shape, 16384, 2, recompute=True, chunk=2**27) == 6 * 2**27 + 6 * head
    assert logit_bytes(shape, 16384, 2, recompute=True, chunk=2**27, trains_head=False) == 14 * 2**27
    run = config(gradient_checkpointing=True, device="cuda", micro_batch_tokens=16384)
    assert update_memory(run, shape, 8)["logits"] == 6 * 2**27 + 6 * head
    run.runtime.device = "cpu"
    assert update_memory(run, shape, 8)["logits"] == 8 * 2**23 + 8 * head, "float32 where no GPU computes"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("trains_head", [True, False])
def test_scores_take_what_the_allocator_sees(dtype, recompute, temperature, trains_head):
    tokens, rows = 1024, 128
    shape = dataclasses.replace(TINY, hidden=32, vocabulary=2000)
    hidden = torch.randn(tokens, 32, dtype=dtype, requires_grad=True)
    head = torch.randn(2000, 32, dtype=dtype, requires_grad=trains_head)
    chosen = torch.randint(0, 2000, (tokens,))

    def score() -> None:
        log_probs, entropy = scoring.token_scores(
            hidden, head, chosen, temperature, with_entropy=True, recompute=recompute, chunk_rows=rows
        )
        (log_probs.sum() + entropy.sum()).backward()

    how = {"chunk": rows * 2000, "tempered": temperature != 1.0, "trains_head": trains_head}
    expected = logit_bytes(shape, tokens, dtype.itemsize, recompute, **how)
    if not recompute:  # all logits are one product, which a processor without bfloat16 adds up in float32 beside it
        expected = max(expected, peak_bytes(lambda: torch.nn.functional.linear(hidden, head)))
    assert peak_bytes(score) == pytest.approx(expected, rel=0.05)


def peak_bytes(work: Callable[[], object]) -> float:
    """The most that the allocator gave out at once beyond what was held before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    return float(held.max())


def test_memory_of_a_language_models_run_is_near_what_one_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """4.56 GB, in bfloat16 4.07, 4.50 where that is multiplied in float32 (a step of `preset=language`, naive GRPO, without AMX)."""
    config = compose_run(["preset=language"])
    parts = computer_memory(config, shape_of(config.model))
    assert parts["weights"] == parts["moments"] / 2 == 4 * 134_515_008
    # Rows, tokens, layers, keys and values, width, float32.
    assert parts["keys and values"] == 128 * (256 + 24) * 30 * 2 * 192 * 4
    assert parts["rounded weights"] == 4 * (134_515_008 - 49_152 * 576 - 576)
    assert sum(parts.values()) == pytest.approx(4.56e9, rel=0.12)
    config.model.precision = "bfloat16"
    for multiplies, bytes_held in ((True, 4.07e9), (False, 4.5e9)):
        monkeypatch.setattr(memory, "processor", lambda multiplies=multiplies: Processor("", "", multiplies))
        assert sum(computer_memory(config, shape_of(config.model)).values()) == pytest.approx(bytes_held, rel=0.12)
    few = compose_run(["preset=language", "runtime.rollout_rows=8"])
    assert "activations" in computer_memory(few, shape_of(few.model))


def test_runs_that_together_take_more_than_this_computer_has_are_told_how_many_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "host_memory_gib", lambda: 10.0)
    configs = [compose_run(overrides) for overrides in ([], ["preset=language"])]
    (two,), (three,) = (list(memory_lines(configs, count)) for count in (2, 3))
    assert two.startswith("memory: a run takes up to about 4.4 GiB (keys and values 1.5, ")
    assert two.endswith("this computer has 10.0")
    assert three.endswith("this computer has 10.0; 3 at once take more than there is: set runtime.workers=2")
    assert list(memory_lines(configs[:1], 3)) == []  # the testbed
    monkeypatch.setattr(memory, "host_memory_gib", lambda: 4.0)
    (one,), (two,) = (list(memory_lines(configs, count)) for count in (1, 2))
    assert one.endswith(
        "this computer has 4.0; it may not fit: set a lower runtime.rollout_rows or runtime.micro_batch_tokens"
    )
    assert "set runtime.workers=1 and a lower runtime.rollout_rows" in two
    assert next(memory_lines(configs, 0)).endswith("this computer has 4.0"), "nothing is left to run"
