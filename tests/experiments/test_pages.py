"""Every `harness` command that a page shows is one that can be typed: composed and planned, or its arguments read; nothing runs."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from verbs import ROOT

from harness.cli import main
from harness.commands._arguments import FAMILY
from harness.configuration.compose import config_directory
from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds
from harness.experiment.planning import make_plan
from harness.train import Application

PAGES = ["README.md", "results/README.md", "harness/README.md", *(
    str(path.relative_to(ROOT)) for pattern in ("docs/**/*.md", "experiments/*/README.md") for path in sorted(ROOT.glob(pattern))
)]  # fmt: skip
# What a reader replaces, and experiments whose files stand on a page (tests/end_to_end runs these).
OURS = ("mine", "lengths", "median", "groups", "sums")
PLACEHOLDERS = {
    "NAME": "dapo_ladder", "VERB": "plan", "COMMIT": "0" * 40, "model.path=FOLDER": "model.path=ORG/NAME",
    "claim=all": "claim=lite_ppo", "claim=dapo_ladder": "claim=lite_ppo",
    **{f"experiment={name}": "experiment=dapo_ladder" for name in OURS},
}  # fmt: skip
WRONG = r"did you mean|has no (key|option)|unknown|no verb|unrecognized|no such (key|option)|invalid choice|choose "
SERVES = ("view",)  # until it is stopped


def commands(page: str) -> Iterator[list[str]]:
    """The words of each command behind `harness`, in code blocks and in text; a verb alone is none."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    for code in re.findall(r"```\w*\n.*?```|`[^`]+`", text, re.DOTALL):
        code = " ".join(code.split()) if not code.startswith("```") else code
        for line in re.findall(r"(?:^[`$ ]*|&& )harness (\w+ [^#|&`\n]+)", code, re.MULTILINE):
            words = [word.strip("[]") if word[0] == "[" else word for word in shlex.split(line) if "..." not in word]
            if words[0] in kinds(FAMILY) | {"VERB": ""} and len(words) > 1 and not words[-1].endswith("="):
                yield words


def replaced(word: str) -> str:
    key, equals, value = word.partition("=")
    word = PLACEHOLDERS.get(
        word, f"{key}{equals}{PLACEHOLDERS.get(value, value)}" if equals else PLACEHOLDERS.get(word, word)
    )
    return PLACEHOLDERS.get(word, word)


@functools.cache
def compose_once(*of_hydra: str) -> None:
    """Compose the launcher and what else is Hydra's: most commands ask for the same."""
    with initialize_config_dir(str(config_directory()), version_base=None):
        compose("config", list(of_hydra), return_hydra_config=True)


def plan_of(words: list[str]) -> None:
    """Compose what the command asks for, its launcher too, and plan its runs."""
    application = Application([word for word in words if word not in ("--json", "--sample")])
    compose_once(*(one for one in application.hydra_arguments if "=" in one and one.lstrip("+").startswith("hydra")))
    if application.experiment is None or not application.experiment.search:
        make_plan(application.overrides, application.is_multirun, application.experiment)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_can_be_typed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise ConfigError("nothing is loaded here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "rewards.py").write_text("def score(*_):\n    return 1.0\n")  # docs/objective/reward.md
    monkeypatch.setattr("harness.evaluation.named_models.resolve", stop)
    wrong = []
    for words in commands(page):
        verb, *rest = map(replaced, words)
        if "--config-dir" in rest:
            del rest[(place := rest.index("--config-dir")) : place + 2]
        told = ""
        try:
            if verb in ("run", "plan") and "--help" not in rest:
                plan_of(rest)
            elif verb not in SERVES:
                main([verb, *rest])
                told = capsys.readouterr().err
        except (ConfigError, HydraException) as error:
            wrong.append(f"{shlex.join(words)}: {error}")
        except SystemExit:
            told = capsys.readouterr().err
        wrong += [f"{shlex.join(words)}: {told}"] * bool(re.search(WRONG, told))
    assert wrong == []
