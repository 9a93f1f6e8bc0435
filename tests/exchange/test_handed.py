"""What is handed over: scripts, lists, Python, launchers' files. Nothing of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.commands._arguments import read_yaml
from harness.configuration.error import ConfigError
from harness.exchange import handed

ACTOR = "actor_rollout_ref.actor"
DEEPSPEED = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}'


def read(path: Path, text: str, **more: Any) -> handed.Handed:
    path.write_text(text)
    return handed.read(path, read_yaml, **more)


VERL = r"""#!/usr/bin/env bash
set -xeuo pipefail
NGPUS=${NGPUS:-8}
max_len=$((1024 * 8))
use_kl=False
lr=1e-6
touch made.txt
DATA=(
    data.train_files="['$HOME/a b.parquet']"
    data.max_response_length=$max_len
)
if [ "$use_kl" = False ]; then EXTRA="algorithm.adv_estimator=grpo"; else EXTRA="algorithm.adv_estimator=gae"; fi
ray job submit -- echo nothing
/opt/conda/bin/python3 -m verl.trainer.main_ppo "${DATA[@]}" $EXTRA \
    actor_rollout_ref.actor.optim.lr=${lr} \
    +reward_model.reward_kwargs.overlong_buffer_cfg.enable=True \
    ++actor_rollout_ref.actor.loss_agg_mode=token-mean \
    trainer.logger='["console","wandb"]' \
    trainer.n_gpus_per_node=$NGPUS "$@" 2>&1 | tee out.log
"""


def test_a_script_is_expanded_as_bash_does_and_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    found = read(
        tmp_path / "run.sh",
        VERL + "\necho late > written.txt\nprintf x >> out.log\n",
        variables={"NGPUS": "4"},
    )
    assert found.values == {
        "data.train_files": ["/home/me/a b.parquet"], "data.max_response_length": 8192, "algorithm.adv_estimator": "grpo",
        f"{ACTOR}.optim.lr": 1e-6, "reward_model.reward_kwargs.overlong_buffer_cfg.enable": True,
        f"{ACTOR}.loss_agg_mode": "token-mean", "trainer.logger": ["console", "wandb"], "trainer.n_gpus_per_node": 4,
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["run.sh"]


def test_a_script_cannot_write_or_run_programs_by_their_path(tmp_path: Path) -> None:
    text = "\n".join([
        "/bin/touch a", "command touch b", "PATH=/bin:/usr/bin", "touch c", "enable kill", "set +r", "exec 3> d", ": > e",
        "builtin set +r; /usr/bin/env touch f", "history -s x; history -w g", "F=h; echo x >| $F; V='>'; eval \"echo z $V i\"",
        "export PATH=/opt/bin:$PATH", "exec 3<>j", "hash -p /bin/touch touch; touch k", "python3 train.py --beta 0.1 --epsilon 0.2",
    ])  # fmt: skip
    assert read(tmp_path / "evil.sh", text).values == {"beta": 0.1, "epsilon": 0.2}
    assert [path.name for path in tmp_path.iterdir()] == ["evil.sh"]


def test_negative_values_belong_to_their_key_and_short_options_end_one(tmp_path: Path) -> None:
    found = read(
        tmp_path / "t.sh", "python t.py --max_steps -1 --beta -0.1 --list -0.5 2 --bf16 -c conf.yaml\n"
    )
    assert found.values == {"max_steps": -1, "beta": -0.1, "list": [-0.5, 2], "bf16": True}


def test_python_that_calculates_with_zero_is_known_unless_it_divides(tmp_path: Path) -> None:
    text = "from trl import GRPOConfig\nB = 0.1\nGRPOConfig(beta=B * 0, max_steps=1 - 0, epsilon=B + 0, temperature=B / 0)\n"
    found = read(tmp_path / "t.py", text).values
    assert found == {"beta": 0, "max_steps": 1, "epsilon": 0.1}


def test_launchers_say_devices_and_configurations_are_read_beside(tmp_path: Path) -> None:
    (tmp_path / "zero.yaml").write_text("distributed_type: DEEPSPEED\nmachine_rank: 0\nnum_processes: 8\n")
    (tmp_path / "grpo.yaml").write_text("beta: 0.04\nlearning_rate: 1e-6\n")
    script = "accelerate launch --config_file zero.yaml {} grpo.py --config grpo.yaml --beta 0.0 --loss_type grpo --bf16"
    found = read(tmp_path / "run.sh", script.format("--num_processes=7"))
    assert found.values == {"beta": 0.0, "learning_rate": 1e-6, "loss_type": "grpo", "bf16": True}
    assert found.devices == 8  # of the file that was read last
    trl = read(
        tmp_path / "cli.sh", "trl grpo --model_name_or_path Q/q --reward_funcs a b --num_generations 4\n"
    )
    assert trl.values == {"model_name_or_path": "Q/q", "reward_funcs": ["a", "b"], "num_generations": 4}
    torch = read(
        tmp_path / "torch.sh", "torchrun --nproc_per_node 8 --nnodes=2 train.py --beta 0.1 --epsilon 0.2"
    )
    assert torch.devices == 16


@pytest.mark.parametrize(
    ("name", "text", "values", "devices"),
    [
        ("list.yaml", "[+algorithm.x.enable=True, data.n=1e3, ~data.m]", {"algorithm.x.enable": True, "data.n": 1000.0}, None),
        ("nested.yaml", "a: {b: 1, c: [2, 3]}", {"a.b": 1, "a.c": [2, 3]}, None),
        ("accelerate.yaml", "{distributed_type: FSDP, machine_rank: 0, num_processes: 4}", {}, 4),
        ("ds.json", DEEPSPEED, {}, 8),
        ("tabs.json", '{\n\t"a": {"b": 1e-6}\n}', {"a.b": 1e-6}, None),
        ("config.yaml", "_wandb: {value: {cli_version: 0.19}}\nwandb_version: 1\nbeta: {desc: null, value: 0.1}", {"beta": 0.1}, None),
        ("slurm.sh", "srun -N 2 bash -c \"while true; do sleep 1; break; done; python train.py --a 1 --b 2\"", {"a": 1, "b": 2}, None),
        ("own.sh", "\"$(which_python)\" -m verl.trainer.main_ppo data.a=1 data.b=2 max_turns=3", {"data.a": 1, "data.b": 2, "max_turns": 3},
         None),
        (
            "if.sh", "if x | grep 'H 100'; then y=1; fi\npython a.py --files \"$(ls | sed \"s/a/b/\" \\\n  | paste -)\" --y $y",
            {"files": None, "y": 1}, None,
        ),
        ("torchrun.sh", "torchrun --nproc_per_node=2 --node_rank 0 --master_addr h --master_port=1 a.py --x 1 --y 2", {"x": 1, "y": 2}, 2),
        (
            "train.py",
            "N = 4\nargs = GRPOConfig(beta=0.1, num_generations=2 * N, max_steps=cli.steps, epsilon_high=None)\n"
            "trainer = GRPOTrainer(model='Q/q', reward_funcs=[exact, shape], args=args, peft_config=LoraConfig(r=8))\n",
            {"beta": 0.1, "num_generations": 8, "epsilon_high": None, "model_name_or_path": "Q/q", "reward_funcs": ["exact", "shape"],
             "use_peft": True, "lora_r": 8},
            None,
        ),
    ],
)  # fmt: skip
def test_files_say_settings_and_devices(
    tmp_path: Path, name: str, text: str, values: dict[str, Any], devices: int | None
) -> None:
    found = read(tmp_path / name, text)
    assert (found.values, found.devices) == (values, devices)
    if name == "train.py":
        assert any("max_steps=cli.steps" in line for line in found.lost)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("two.sh", "python a.py --beta 1\npython a.py --beta 2", "runs 2 commands with settings; choose with command=N"),
        ("none.sh", "ls -l\n", "runs no command with settings"),
        ("says.sh", "echo MODEL_PATH is not set\nexit 1", "stops with 'MODEL_PATH is not set'; give what it wants as NAME=VALUE"),
        ("branch.sh", "srun --nodes=1 bash -c 'if [ $SLURM_PROCID = 1 ]; then python a.py --x 1 --y 2; fi'", "nothing trains as it stands"),
        ("wants.sh", "set -u\nM=${MODEL:?must be set}\npython a.py --beta 1", "give what it wants as NAME=VALUE"),
        ("lost.sh", "trl grpo --config gone.yaml --beta 0.1", "takes its settings from gone.yaml, which is not here"),
        ("ds.json", DEEPSPEED.replace("64", "65"), "no multiple"),
        ("two.py", "GRPOConfig(beta=1)\nGRPOConfig(beta=2)", "choose with command=N"),
        ("none.py", "x = 1", "has no GRPOConfig"),
        ("text.yaml", "just words", "holds no mapping of settings, and no list of overrides"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path / name, text)
