"""What Hydra has merged is read by later processes, and merged again where a file differs or what is kept cannot be read."""

import shutil
from pathlib import Path
from unittest import mock

import pytest
from omegaconf import DictConfig, OmegaConf

from harness.configuration import compose

CHOICES = ("rung=dapo_5_dynamic_sampling",)


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(compose.config_directory(), tmp_path / "conf"))


def merged(conf: Path) -> tuple[DictConfig, int]:
    """What a process finds that begins now, and how often Hydra merges files for it."""
    compose._content.cache_clear()
    with mock.patch.object(compose, "_composed", wraps=compose._composed) as merge:
        return compose._kept(conf, CHOICES), merge.call_count


def test_a_later_process_reads_what_the_first_has_merged(conf: Path) -> None:
    first, again = merged(conf), merged(conf)
    assert (first[1], again[1]) == (1, 0)
    assert OmegaConf.to_yaml(again[0]) == OmegaConf.to_yaml(first[0])  # interpolations, too
    with pytest.raises(Exception, match="not in struct"):
        again[0].algorithm.clip = 1


@pytest.mark.parametrize("what", ["another value", "a torn file", "no folder"])
def test_what_is_kept_is_never_old_and_never_needed(conf: Path, what: str) -> None:
    merged(conf)
    home = conf.parent / "cache"
    (file,) = (home / "rlvr-harness" / "merged").iterdir()
    if what == "another value":
        path = conf / "algorithm" / "grpo.yaml"
        path.write_text(path.read_text().replace("prompts_per_step: 32", "prompts_per_step: 48"))
    elif what == "a torn file":
        file.write_bytes(file.read_bytes()[:100])
    else:
        shutil.rmtree(home)
        home.write_text("")
    config, count = merged(conf)
    assert (count, config.algorithm.prompts_per_step) == (1, 48 if what == "another value" else 32)
