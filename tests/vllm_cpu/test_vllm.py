"""vLLM itself: the traps of weight updates, death, what it leaves of the process, training.

Runs with the interpreter of `tests/vllm_cpu/setup.sh`, elsewhere it is skipped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "rollout"))

from engine_support import HAS_VLLM, scores, seeds_for, shift, tiny_checkpoint
from small_runs import TWO_HEADS, finished, small_config

from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.sections import RuntimeConfig
from harness.model.policy import NativePolicy, Policy
from harness.model.ranks import close_groups
from harness.model.transformers_policy import TransformersPolicy
from harness.rollout.engine import vllm as member
from harness.rollout.engine.vllm import worker as vllm_worker
from harness.rollout.engine.vllm.in_process import VllmEngine
from harness.rollout.types import EngineDied, RolloutEngine, SamplingParams
from harness.rollout.wrappers import WeightSync

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not HAS_VLLM,
        reason="vLLM is not installed here; tests/vllm_cpu/setup.sh makes an environment that has it",
    ),
]

PROMPT = [2 + i % 40 for i in range(300)]  # two full blocks of the prefix cache, and a rest
PARAMS = SamplingParams(12)


def opened(policy: Policy, **settings: object) -> VllmEngine:
    engine: VllmEngine = member.build(member.Config(**settings), policy, RuntimeConfig(rollout_rows=64))  # type: ignore[arg-type]
    return engine


@pytest.fixture
def tied(tmp_path: Path) -> NativePolicy:
    return NativePolicy.load(tiny_checkpoint(tmp_path / "model", "qwen2", tied=True), "torch")


@pytest.fixture
def engine(tied: NativePolicy) -> Iterator[VllmEngine]:
    one = opened(tied)
    yield one
    one.close()


def gap(engine: RolloutEngine, policy: NativePolicy, prompts: list[list[int]]) -> float:
    made = engine.generate(prompts, seeds_for(prompts, 4), PARAMS)
    return float((made.log_probs_N - scores(policy, prompts, made)).abs().max())


def test_cached_prompts_of_the_old_weights_are_dropped(
    engine: VllmEngine, tied: NativePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [PROMPT, [*PROMPT[:280], 3, 4]]
    assert gap(engine, tied, prompts) < 1e-4
    shift(tied, 1)
    with monkeypatch.context() as patched:
        patched.setattr(engine.llm, "reset_prefix_cache", lambda: True)
        engine.load_weights(tied.named_weights())
        assert gap(engine, tied, prompts) > 1e-2
    engine.load_weights(tied.named_weights())
    assert gap(engine, tied, prompts) < 1e-4


def test_the_packed_projection_of_tied_embeddings_follows(
    engine: VllmEngine, tied: NativePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift(tied, 1)
    with monkeypatch.context() as patched:
        patched.setattr(vllm_worker, "repack_tied_head", lambda model: None)
        engine.load_weights(tied.named_weights())
        assert gap(engine, tied, [PROMPT]) > 1e-2
    engine.load_weights(tied.named_weights())
    assert gap(engine, tied, [PROMPT]) < 1e-4


def test_weights_in_bfloat16_arrive_rounded(tmp_path: Path) -> None:
    """The trainer keeps float32 weights and the engine samples in bfloat16."""
    policy = NativePolicy.load(tiny_checkpoint(tmp_path / "model", "qwen3", tied=True), "torch")
    with closing(
        member.open_folder(
            member.Config(), policy.folder, RuntimeConfig(rollout_rows=64), "cpu", torch.bfloat16, "torch"
        )
    ) as engine:
        shift(policy, 1)
        engine.load_weights(policy.named_weights())
        made = engine.generate([PROMPT], seeds_for([PROMPT], 16), PARAMS)
        difference = (made.log_probs_N - scores(policy, [PROMPT], made)).abs()
        assert 1e-4 < float(difference.mean()) < 0.1


def test_more_prompts_than_a_step_can_read_and_more_keys_than_the_cache_holds(tied: NativePolicy) -> None:
    """A step reads 4096 tokens on a CPU; a cache of 24 MiB holds about forty of these responses, so others are put off and resumed."""
    prompts = [[2 + (i + j) % 50 for j in range(60 + i % 40)] for i in range(100)]
    with closing(
        member.build(
            member.Config(kv_cache_memory_gib=24 / 1024, max_model_len=300),
            tied,
            RuntimeConfig(rollout_rows=1024),
        )
    ) as engine:
        params = SamplingParams(200)
        made = engine.generate(prompts, seeds_for(prompts, 2), params)
        torch.testing.assert_close(made.log_probs_N, scores(tied, prompts, made), rtol=0, atol=1e-4)
        again = engine.generate(prompts[90:], seeds_for(prompts, 2)[90:], params)
        assert again.token_lists() == made.token_lists()[180:]


def test_workers_of_their_own_get_the_weights_through_a_file(tied: NativePolicy) -> None:
    """Tensor parallelism: the model is sharded over two processes."""
    with closing(opened(tied, tensor_parallel=2)) as engine:
        for number in range(3):
            shift(tied, number)
            engine.load_weights(tied.named_weights())
            assert gap(engine, tied, [PROMPT, PROMPT[:5]]) < 1e-4


def test_every_rank_of_a_trainer_has_an_engine_of_its_own(tied: NativePolicy) -> None:
    script = Path(__file__).parent / "two_ranks.py"
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    command.append(str(tied.folder))
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("agrees with the trainer, and the group lives on") == 2


def test_a_failure_inside_vllm_ends_the_engine(tied: NativePolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(tied)) as engine:

        def fails(*_: object, **__: object) -> None:
            raise RuntimeError("a kernel failed")

        monkeypatch.setattr(engine.llm.llm_engine, "step", fails)
        with pytest.raises(EngineDied, match="a kernel failed"):
            engine.generate([PROMPT], seeds_for([PROMPT], 4), PARAMS)


def test_the_process_keeps_its_threads_and_its_process_group(tied: NativePolicy) -> None:
    torch.set_num_threads(2)
    first, second = opened(tied), opened(tied)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    second.close()  # must not take the group away from the first
    assert gap(first, tied, [PROMPT]) < 1e-4
    assert torch.distributed.is_initialized()
    first.close()
    assert not torch.distributed.is_initialized()


def test_the_pair_of_a_gpu_works_in_one_process(tmp_path: Path) -> None:
    """The FSDP2 policy of one rank opens the process group, in which vLLM makes its own groups; closing leaves it to the policy."""
    from vllm.distributed import destroy_distributed_environment, destroy_model_parallel

    folder = tiny_checkpoint(tmp_path / "model", "qwen2", tied=True)
    settings = Pretrained(path=str(folder), precision="float32")
    policy = TransformersPolicy.load(folder, settings, RuntimeConfig(device="cpu"))
    prompts = [PROMPT[:20], PROMPT[5:12]]
    try:
        with closing(opened(policy)) as engine:
            sync = WeightSync(engine, policy, prompts, PARAMS)
            for _ in range(2):
                with torch.no_grad():
                    for parameter in policy.parameters():
                        parameter.add_(0.05)
                engine.sleep()
                engine.wake()
                assert sync.load() < 1e-4
        assert torch.distributed.is_initialized()
        made = policy.token_log_probs(prompts, torch.tensor([3, 4, 5]), torch.tensor([1, 2]))
        assert bool(made[0].isfinite().all())
    finally:
        # vLLM remembers groups of this process, and would look for them when the next test opens an engine.
        destroy_model_parallel()
        destroy_distributed_environment()
        close_groups()


@pytest.mark.parametrize("old_log_probs", ["sampler", "recomputed"])
def test_a_run_trains_with_it(old_log_probs: str, tmp_path: Path) -> None:
    config = small_config(
        engine=member.Config(),
        **TWO_HEADS,
        model__warmup__steps=240,
        algorithm__dead_groups__policy="refill",
        algorithm__engine_correction__old_log_probs=old_log_probs,
        runtime__results=str(tmp_path),
    )
    run = finished(config, tmp_path)
    steps = run.steps()
    assert steps["step"].tolist() == [1, 2, 3, 4]
    assert float(steps["sampler_log_prob_gap_max"].max()) < 1e-4
    steps = steps[steps["kept_groups"] > 0]  # a weak policy has steps without any contrast
    assert len(steps)
    assert np.isfinite(steps[["loss", "gradient_norm", "entropy_nats"]].to_numpy()).all()
    assert len(run.samples("arithmetic_heldout", 4))
