"""The configuration of `harness evaluate model=`: a run's own protocol, or a preset with benchmarks by name and local data."""

import shlex
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness.configuration.compose import compose_values, options, values_named
from harness.configuration.error import ConfigError
from harness.configuration.identity import flatten
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig, load, places, section
from harness.configuration.sections import key_of
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
        return [item for item in self.overrides if key_of(item).split(".")[0] in _MACHINE]

    @property
    def names_a_protocol(self) -> bool:
        """True where the request says what to evaluate on; else a run's own protocol is taken."""
        return bool(self.benchmarks or self.data or "evaluation" in map(key_of, self.overrides))


def task_config(request: Request) -> Any | None:
    """The training problems that the request names (`task=NAME`), for checks; no model is involved."""
    if not any(key_of(item).split(".")[0] == "task" for item in request.overrides):
        return None
    return benchmark_config(compose_values(request.overrides)["task"], "task")


def protocol_config(request: Request, runs: Sequence[RunDir]) -> RunConfig:
    """The configuration whose sections `evaluation`, `verifier`, `engine` and `runtime` an evaluation uses. Raises `ConfigError`.

    Where the request names no protocol, the first run's is taken: its benchmarks, sampling and verifier. A data set that it names and no
    configuration file of this machine does is refused, with the line to type.
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


def base_policy_config(run: RunDir) -> RunConfig:
    """The configuration whose `model`, `task` and `seed` say where a stored run began. Raises `ConfigError` as `protocol_config`."""
    stored = run.settings()
    values = {**_composed([]), "seed": stored.get("seed", 0)}
    values |= {key: section(stored, key) for key in ("model", "task")}
    config = _load(values, run)
    for key in ("model", "task"):
        _refuse_places(run, getattr(config, key), key, key, set())
    return config


def _run_values(request: Request, run: RunDir) -> dict[str, Any]:
    """A run's own benchmarks, sampling and verifier with value overrides; engine, addresses and machine come from here and now."""
    stored, named_groups = run.settings(), set(map(key_of, request.overrides))
    composed = [*request.machine, *(item for item in request.overrides if key_of(item) == "verifier")]
    values = {**_composed(composed), "evaluation": section(stored, "evaluation")}
    if "verifier" not in named_groups:
        values["verifier"] = section(stored, "verifier")
    rest = [item for item in request.overrides if item not in composed]
    try:
        override_values: Any = OmegaConf.to_container(OmegaConf.from_dotlist(rest))
    except OmegaConfBaseException as error:
        raise ConfigError(f"cannot apply {' '.join(rest)}: {str(error).splitlines()[0]}") from error
    for name, benchmark in _load(values, run).evaluation.benchmarks.items():
        key = f"evaluation.benchmarks.{name}"
        _refuse_places(run, benchmark, key, "benchmark", set(flatten(override_values)))
    result = _overlay(values, override_values)  # not by OmegaConf, which resolves what a stored file refers to
    assert isinstance(result, dict)
    _set_template(result["evaluation"]["benchmarks"], request.template)
    return result


def _composed(overrides: Sequence[str]) -> dict[str, Any]:
    values = compose_values(overrides)
    values.pop("experiment", None)
    return values


def _load(values: Mapping[str, Any], run: RunDir) -> RunConfig:
    """Load what was composed here with sections of a stored run; those may not leave a cap for training."""
    caps = values["evaluation"].get("caps")
    cap = max(caps) if isinstance(caps, list) and all(isinstance(cap, int) for cap in caps) and caps else 1
    try:
        return load({**values, "sampling": {**values["sampling"], "max_response_tokens": max(cap, 1)}})
    except ConfigError as error:
        raise ConfigError(f"{run.path / CONFIG}: {error}") from error


def _refuse_places(run: RunDir, section: Any, path: str, group: str, named_keys: Container[str]) -> None:
    """Refuse a file, a data set or an address that a store names and neither the command line nor a configuration file of this machine."""
    own_values = values_named(group)
    strange = [
        (key, value) for key, value in places(section, path) if key not in named_keys and value not in own_values
    ]
    if strange:
        fix = " ".join(shlex.quote(f"{key}={value}") for key, value in strange)
        place = f"{strange[0][0]}={strange[0][1]}"
        own = f"name it yourself: {fix}" if group == "benchmark" else "name the checkpoint: model=NAME"
        raise ConfigError(f"run {run.run_id} names {place}, which a stored run may not choose; if you trust it, {own}")


def _overlay(base: Any, top: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(top, dict)):
        return top
    return {**base, **{key: _overlay(base.get(key), value) for key, value in top.items()}}


def _request_values(request: Request) -> dict[str, Any]:
    """A preset with the benchmarks and data that the request names."""
    override_keys = set(map(key_of, request.overrides))
    defaults = {"evaluation": PRESET, "verifier": _VERIFIER}
    overrides = [f"{group}={name}" for group, name in defaults.items() if group not in override_keys]
    overrides += [item for item in request.overrides if key_of(item).split(".")[0] != "task"]
    protocol = next((item.partition("=")[2] for item in overrides if key_of(item) == "evaluation"), PRESET)
    if protocol not in _GRADED_AS_TRAINING and not override_keys & {"verifier", "verifier.form"}:
        overrides.append("verifier.form=value")
    preset = compose_values(overrides)["evaluation"]["benchmarks"]
    names = request.benchmarks
    new_names = [name for name in names if name not in preset]
    for name in new_names:
        if name not in (valid_names := options("benchmark")):
            raise ConfigError(f"benchmark has no option {name!r}{nearest(name, valid_names)}")
    values = _composed([*overrides, *(f"+benchmark@evaluation.benchmarks.{n}={n}" for n in new_names)])
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
