"""Models by name: a run of ours (`RUN_ID`, `RUN_ID@0` before RL), a folder, a GGUF file, or a Hugging Face id (`ORG/NAME[@REVISION]`)."""

from dataclasses import dataclass, replace
from pathlib import Path

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.registry import implementation, nearest
from harness.configuration.schema import RunConfig
from harness.evaluation.protocol import base_policy_config
from harness.model.hub import HUB_ID, download, gguf_checkpoint, gguf_file
from harness.model.system import content_fingerprint
from harness.store import ResultStore, RunDir
from harness.store.layout import MANIFEST, RUN_ID, parse_step
from harness.store.seal import folder_fault

POLICY = "policy"


@dataclass(frozen=True)
class Model:
    """A checkpoint to evaluate: its `transformers` folder, the hash of its content, and the run of ours that it comes from."""

    name: str
    folder: Path
    fingerprint: str
    run: RunDir | None = None


def resolve(name: str, store: ResultStore, linear_kernel: str) -> Model:
    """Find a checkpoint, or download it from the Hub. Raises `ConfigError`."""
    stem, _, mark = name.partition("@")
    if RUN_ID.fullmatch(stem):
        return _run_model(name, store.run(stem), mark, store, linear_kernel)
    gguf = gguf_file(name)
    if gguf is not None:
        folder = gguf_checkpoint(gguf, None, store.root / "cache")
        return Model(name, folder, content_fingerprint(folder))
    path = Path(stem)
    if path.is_dir() and not mark:
        return _folder_model(name, path, store, linear_kernel)
    if name.startswith(("/", "./", "../", "~")) or not HUB_ID.fullmatch(stem):
        raise ConfigError(f"model={name}: no such folder")
    if members := [member for member in options("model") if member.startswith(stem)]:
        where = getattr(compose_run([f"model={members[0]}"]).model, "path", "")
        told = f"; that of harness run model={members[0]} is {where!r}" if where else ""
        raise ConfigError(f"model={name}: a path is asked for{told}")
    try:
        folder = download(stem, mark or None)
    except ConfigError as error:
        raise ConfigError(f"model={name}: {error}") from error
    return Model(name, folder, f"{stem}@{folder.name}")


def base_model(name: str, config: RunConfig, store: ResultStore, linear_kernel: str) -> Model:
    """Prepare the policy that a configuration's run starts from. Raises as the family's `prepare`."""
    source = implementation("harness.base_policy", config.model)
    folder = source.prepare(config.model, config.task, config.seed, store.root / "cache", linear_kernel)
    return Model(name, folder, content_fingerprint(folder))


def _run_model(name: str, run: RunDir, mark: str, store: ResultStore, linear_kernel: str) -> Model:
    if not run.exists():
        raise ConfigError(f"model={name}: {store.root} holds no such run{nearest(run.run_id, store.run_ids())}")
    if mark == "0":
        return replace(base_model(name, base_policy_config(run), store, linear_kernel), run=run)
    checkpoints = [(step, path / POLICY) for step, path in run.checkpoints() if (path / POLICY).is_dir()]
    matches = [item for item in checkpoints if not mark or mark == str(item[0])]
    if not matches:
        steps = ", ".join(f"@{step}" for step, _ in checkpoints) or "no policy"
        removal = "its checkpoints were removed" if not checkpoints and run.status == "finished" else ""
        why = removal or "a run saves its policy with its last step"
        raise ConfigError(f"model={name}: the run keeps {steps} (and @0, before RL); {why}")
    folder = matches[-1][1]
    _refuse_damage(name, folder.parent)
    return Model(name, folder, content_fingerprint(folder), run)


def _folder_model(name: str, path: Path, store: ResultStore, linear_kernel: str) -> Model:
    """A run's directory, one of its checkpoints, or any checkpoint folder."""
    if (path / MANIFEST).exists() and RUN_ID.fullmatch(path.resolve().name):
        root = ResultStore(path.resolve().parent.parent)
        return _run_model(name, RunDir(path.resolve()), "", root, linear_kernel)
    folder = path / POLICY if (path / POLICY / "config.json").exists() else path
    _refuse_damage(name, folder.parent if folder.name == POLICY else folder)
    if not (folder / "config.json").exists():
        raise ConfigError(f"model={name}: {path} has no config.json; give the folder of a saved transformers model")
    parents = folder.resolve().parents
    run = next((RunDir(p) for p in parents if RUN_ID.fullmatch(p.name) and (p / MANIFEST).exists()), None)
    inside = run is not None and any(parse_step(parent.name) is not None for parent in parents)
    return Model(name, folder, content_fingerprint(folder), run if inside else None)


def _refuse_damage(name: str, sealed: Path) -> None:
    """Raises `ConfigError` where a checkpoint is not what its seal says: one bit that flipped changes every number."""
    if fault := folder_fault(sealed):
        raise ConfigError(f"model={name}: {fault}; evaluate another checkpoint, or train the run again")
