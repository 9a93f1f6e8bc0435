"""The configuration of `harness evaluate model=`: a run's own protocol, or a preset with benchmarks by name and local data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.compose import compose_values, options
from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, dump, load
from harness.problems.problem import benchmark_config
from harness.store import RunDir
from harness.store.layout import CONFIG

PRESET = "dapo"  # n = 32, temperature 1, top-p 0.7: the protocol most ablation tables are read against
_VERIFIER = "answer_line"  # a box, else an answer line: covers what every template asks for
# The other protocols are papers', whose graders take any form of the value.
_GRADED_AS_TRAINING = ("testbed", "language")
_MACHINE = ("runtime", "engine", "tracker")


@dataclass
class Request:
    """An evaluation as the command line asks for it; without `benchmarks` it is on the preset's or the run's own.

    `data` is a JSONL file, or a folder of files `<benchmark>.jsonl`; `template` is for all benchmarks that have one.
    """

    benchmarks: list[str] = field(default_factory=list)
    data: Path | None = None
    template: str | None = None
    overrides: list[str] = field(default_factory=list)

    @property
    def machine(self) -> list[str]:
        """The overrides that say where and how it runs."""
        return [item for item in self.overrides if _key(item).split(".")[0] in _MACHINE]

    @property
    def names_a_protocol(self) -> bool:
        """True where the request says what to evaluate on; else a run's own protocol is taken."""
        return bool(self.benchmarks or self.data or "evaluation" in map(_key, self.overrides))


def task_config(request: Request) -> Any | None:
    """The training problems that the request names (`task=NAME`), for checks; no model is involved."""
    if not any(_key(item).split(".")[0] == "task" for item in request.overrides):
        return None
    return benchmark_config(compose_values(request.overrides)["task"], "task")


def protocol_config(request: Request, runs: Sequence[RunDir]) -> RunConfig:
    """The configuration whose sections `evaluation`, `verifier`, `engine` and `runtime` an evaluation uses. Raises `ConfigError`.

    Where the request names no protocol, the first run's is taken.
    """
    if not request.names_a_protocol and not runs:
        raise ConfigError(
            f"name what to evaluate on: benchmark={nearest('', options('benchmark')).removeprefix('; choose one of: ')} "
            "(several with commas), data.path=FILE.jsonl or evaluation=PRESET"
        )
    values = _request_values(request) if request.names_a_protocol else _run_values(request, runs[0])
    benchmarks, caps = values["evaluation"]["benchmarks"], values["evaluation"]["caps"]
    if request.template is not None and not any(map(_has_template, benchmarks.values())):
        raise ConfigError(f"template={request.template}: {', '.join(benchmarks)} has no template; leave it out")
    # Training's cap is no part of an evaluation; it must not stop one with smaller caps.
    values["sampling"]["max_response_tokens"] = min(values["sampling"]["max_response_tokens"], max(caps, default=1))
    return load(values)


def run_config(run: RunDir) -> RunConfig:
    """Return the configuration that a run was trained and evaluated under. Raises `ConfigError` that names its file."""
    settings = run.settings()
    if source := settings.get("foreign"):
        raise ConfigError(
            f"run {run.run_id} was imported from {source['file']}: it has no configuration of ours and no policy"
        )
    try:
        return load(settings)
    except ConfigError as error:
        raise ConfigError(f"{run.path / CONFIG}: {error}") from error


def _run_values(request: Request, run: RunDir) -> dict[str, Any]:
    """A run's own protocol with value overrides; machine settings come from here and now."""
    values = dump(run_config(run))
    composed = [*request.machine, *(item for item in request.overrides if _key(item) == "verifier")]
    new_values = compose_values(composed)
    values["runtime"] = new_values["runtime"]
    for group in {"engine", "verifier"}.intersection(map(_key, composed)):
        values[group] = new_values[group]
    rest = [item for item in request.overrides if item not in composed]
    try:
        override_values = OmegaConf.to_container(OmegaConf.from_dotlist(rest))
    except OmegaConfBaseException as error:
        raise ConfigError(f"cannot apply {' '.join(rest)}: {str(error).splitlines()[0]}") from error
    result = _overlay(values, override_values)  # not by OmegaConf, which resolves what a stored file refers to
    assert isinstance(result, dict)
    _set_template(result["evaluation"]["benchmarks"], request.template)
    return result


def _overlay(base: Any, top: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(top, dict)):
        return top
    return {**base, **{key: _overlay(base.get(key), value) for key, value in top.items()}}


def _request_values(request: Request) -> dict[str, Any]:
    """A preset with the benchmarks and data that the request names."""
    override_keys = set(map(_key, request.overrides))
    defaults = {"evaluation": PRESET, "verifier": _VERIFIER}
    overrides = [f"{group}={name}" for group, name in defaults.items() if group not in override_keys]
    overrides += [item for item in request.overrides if _key(item).split(".")[0] != "task"]
    protocol = next((item.partition("=")[2] for item in overrides if _key(item) == "evaluation"), PRESET)
    if protocol not in _GRADED_AS_TRAINING and not override_keys & {"verifier", "verifier.form"}:
        overrides.append("verifier.form=value")
    preset = compose_values(overrides)["evaluation"]["benchmarks"]
    names = request.benchmarks
    new_names = [name for name in names if name not in preset]
    for name in new_names:
        if name not in (valid_names := options("benchmark")):
            raise ConfigError(f"benchmark has no option {name!r}{nearest(name, valid_names)}")
    values = compose_values([*overrides, *(f"+benchmark@evaluation.benchmarks.{n}={n}" for n in new_names)])
    values.pop("experiment", None)
    configs = values["evaluation"]["benchmarks"]
    if request.data is not None and request.data.is_file() and not names:
        new_names = [request.data.stem]
        benchmarks = {request.data.stem: {"kind": "dataset", "name": request.data.stem}}
    else:
        benchmarks = {name: configs[name] for name in names or configs}
    templates = {item.get("template") for item in preset.values()}
    if len(templates) == 1:  # a preset's template is part of its protocol: it holds for further benchmarks, too
        _set_template({name: benchmarks[name] for name in new_names}, templates.pop())
    _set_paths(benchmarks, request.data)
    _set_template(benchmarks, request.template)
    values["evaluation"]["benchmarks"] = benchmarks
    return values


def _set_paths(benchmarks: Mapping[str, dict[str, Any]], data: Path | None) -> None:
    if data is None:
        return
    if data.is_file() and len(benchmarks) != 1:
        raise ConfigError(f"data.path={data} is one file for {len(benchmarks)} benchmarks; give a folder of NAME.jsonl")
    for name, item in benchmarks.items():
        path = data if data.is_file() else data / f"{name}.jsonl"
        if not path.is_file():
            raise ConfigError(f"data.path={data}: there is no {path}")
        if item.get("kind") != "dataset":
            raise ConfigError(f"benchmark {name} is procedural; it reads no data.path")
        item["path"] = str(path)


def _set_template(benchmarks: Mapping[str, dict[str, Any]], template: str | None) -> None:
    for item in benchmarks.values() if template is not None else ():
        if _has_template(item):
            item["template"] = template


def _has_template(benchmark: Mapping[str, Any]) -> bool:
    return benchmark.get("kind") != "arithmetic"  # its problems are token sequences of the testbed


def _key(item: str) -> str:
    return item.partition("=")[0].lstrip("+~")
