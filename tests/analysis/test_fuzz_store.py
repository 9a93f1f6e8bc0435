"""A damaged file ends in the right answer or in a refusal that names it, each kind of file twice.

Each case damages one file of a small store, of a pack of it, or of what `import` and `evaluate` take. It then asks the verbs that read
it. Right is the answer of the whole files, or a refusal or a note that names the damaged file; anything else is told with its seed.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from synthetic_store import build_store

from harness.cli import main
from harness.store import ResultStore
from harness.store.seal import folder_fault

RUNGS = [("arm_0", "a", 0.5, 1.0), ("arm_1", "b", 0.6, 2.0)]
SMALL = {
    "problems": 4,
    "n": 2,
    "steps": 2,
    "evaluate": (0, 2),
    "caps": (32,),
    "seeds": (0, 1),
    "rungs": RUNGS,
    "design": "arms",
}
DEEP = 50_000
HUGE = 8 << 20
Damage = Callable[[bytes, random.Random], bytes | None]


def _at(content: bytes, dice: random.Random) -> int:
    return dice.randrange(len(content) + 1)


def _flip(content: bytes, dice: random.Random) -> bytes:
    if not content:
        return b"\x01"
    place = dice.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]


def _insert(part: bytes) -> Damage:
    def insert(content: bytes, dice: random.Random) -> bytes:
        place = _at(content, dice)
        return content[:place] + part + content[place:]

    return insert


def _swap_digit(content: bytes, dice: random.Random) -> bytes:
    """Another digit in the place of one: what stays well formed."""
    places = [place for place, byte in enumerate(content) if byte in b"0123456789"]
    if not places:
        return _flip(content, dice)
    place = dice.choice(places)
    return content[:place] + str(dice.randrange(10)).encode() + content[place + 1 :]


DAMAGES: dict[str, Damage] = {
    "truncate": lambda content, dice: content[: _at(content, dice)],
    "flip": _flip,
    "digit": _swap_digit,
    "delete": lambda content, dice: None,
    "empty": lambda content, dice: b"",
    "nul": lambda content, dice: b"\0" * len(content),
    "nul inside": _insert(b"\0" * 16),
    "deep list": lambda content, dice: b"[" * DEEP,
    "deep object": lambda content, dice: b'{"a":' * DEEP,
    "deep inside": _insert(b"[" * DEEP),
    "huge": lambda content, dice: content + b"x" * HUGE,
    "huge number": _insert(b"9" * 400),
    "surrogate": _insert(b'"\\ud800"'),
    "random": lambda content, dice: dice.randbytes(len(content)),
    "latin": _insert(b"\xff\xfe"),
    "null": lambda content, dice: b"null",
    "doubled": lambda content, dice: content + content,
}


REPORT = ("report", "experiment=ladder", "only=table", "runtime.results=results")
STORE = (REPORT, ("status", "runtime.results=results"), ("status", "0" * 16, "runtime.results=results"))
STORE += (("merge", "results", "runtime.results=merged"),)
RUN = "results/runs/*/"
# Kinds of files: where they lie, and the verbs that read them.
KINDS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "plan": ("results/experiments/ladder/plan.json", STORE),
    "manifest": (f"{RUN}manifest.json", STORE),
    "configuration": (f"{RUN}config.yaml", STORE),
    "metrics": (f"{RUN}metrics.jsonl", STORE),
    "samples": (f"{RUN}samples/*/*/*.parquet", STORE),
    "claim": (f"{RUN}claim.lock", STORE),
    "phase": (f"{RUN}attempts/000/phase.txt", STORE),
    "tracking": (f"{RUN}tracking/wandb.json", STORE),
    "checkpoint": (f"{RUN}checkpoints/*/*", ()),
    "pack": ("ladder.tar.xz", (("merge", "ladder.tar.xz", "runtime.results=unpacked"),)),
    "log": ("state.json", (("report", "logs=state.json", "out=drawn", "formats=png"),)),
    "trl": ("trl.json", (("translate", "from=trl", "file=trl.json"),)),
    "verl": ("verl.yaml", (("translate", "from=verl", "file=verl.yaml"),)),
    "generations": ("samples.jsonl", (("evaluate", "samples=samples.jsonl", "out=out"),)),
    "scores": ("scores.csv", (("judge", "scores.csv", "out=judged"),)),
}
OWN_FILES = ("log", "trl", "verl", "generations", "scores")


def build(folder: Path) -> None:
    """Make one file of each kind."""
    store = build_store(folder / "results", **SMALL)
    for number, run_id in enumerate(store.run_ids()):
        run = store.run(run_id)
        (run.new_attempt() / "phase.txt").write_text("training")
        (run.path / "claim.lock").write_text("")
        (run.path / "tracking").mkdir()
        (run.path / "tracking" / "wandb.json").write_text(json.dumps({"step": 2}))
        for step in (1, 2):
            run.publish_checkpoint(
                step, lambda path, step=step: (path / "state.pt").write_bytes(bytes([step]) * 500) and None
            )
        manifest = run.manifest() | {"attempts": [{"device": "cpu"}], "labels": {"arm": str(number), "steps": "2"}}
        run.write_manifest(run.seal_manifest(manifest))
    said = _ask(("pack", "experiment=ladder", "out=ladder.tar.xz", "runtime.results=results"))
    assert said[0] == 0, said
    history = [{"step": step, "reward": 0.1 * step, "eval_accuracy": 0.2} for step in (1, 2, 3)]
    (folder / "state.json").write_text(json.dumps({"global_step": 3, "log_history": history}))
    (folder / "trl.json").write_text(
        json.dumps({"beta": 0.1, "learning_rate": 1e-6, "num_generations": 8, "epsilon": 0.2})
    )
    verl = {
        "actor_rollout_ref": {"actor": {"optim": {"lr": 1e-6}, "clip_ratio_low": 0.2}},
        "trainer": {"total_training_steps": 8},
    }
    (folder / "verl.yaml").write_text(yaml.safe_dump(verl))
    rows = [
        {"problem_id": p, "response": rf"\boxed{{{p}{n}}}", "gold": f"{p}1", "sample_index": n}
        for p in "12"
        for n in (0, 1)
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = [f"{arm},{seed},aime,{0.1 * seed + 0.2 * (arm == 'b')}" for arm in "ab" for seed in (0, 1, 2)]
    (folder / "scores.csv").write_text("\n".join(["arm,seed,benchmark,score", *scores]) + "\n")


def _ask(command: tuple[str, ...]) -> tuple[int | None, str]:
    """Exit code and words of a verb; None for a traceback, or a way out that is none."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code: int | None = main(list(command))
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else None
        except BaseException:
            code = None
            traceback.print_exc()
    text = out.getvalue()
    return None if "Traceback" in text else code, text


@contextlib.contextmanager
def workplace() -> Iterator[tuple[Path, dict[tuple[str, ...], str]]]:
    """A folder with whole files, where the verbs are asked, and what they say of whole files."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        folder = Path(name)
        build(folder)
        shutil.copytree(folder, folder / "whole", ignore=lambda *_: {"whole"})
        truth = {}
        for verb in dict.fromkeys(verb for _, verbs in KINDS.values() for verb in verbs):
            code, truth[verb] = _ask(verb)
            assert code == 0, (verb, truth[verb])
        yield folder, truth


def _restore(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "whole":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(folder / "whole", folder, dirs_exist_ok=True)


def case(seed: int, folder: Path, truth: dict[tuple[str, ...], str]) -> list[str]:
    """Damage a file, and return in a line each what went wrong."""
    dice = random.Random(seed)
    kind, damage = list(KINDS)[seed % len(KINDS)], dice.choice(list(DAMAGES))
    _restore(folder)
    pattern, verbs = KINDS[kind]
    path = dice.choice(sorted(folder.glob(pattern)))
    before = path.read_bytes()
    after = DAMAGES[damage](before, dice)
    path.unlink() if after is None else path.write_bytes(after)
    label, wrong = f"{seed}: {damage} of {path.relative_to(folder)}", []
    if kind == "checkpoint" and after != before:
        run = ResultStore(folder / "results").run(path.parts[-4])
        newest, faults = run.newest_checkpoint()
        if newest == path.parent and not faults and folder_fault(path.parent) == "" and path.name != "files.seal":
            wrong.append(f"{label}: a checkpoint that is not what was written is taken")
    for verb in verbs:
        code, text = _ask(verb)
        named = (
            path.name in text or f"{path.parent.name} is not what it was" in text
        )  # the run of a manifest that lists others
        if code not in (0, 1, 2):
            wrong.append(f"{label}: {verb[0]} ends with {code}: {text[-1500:]}")
        elif code == 2 and text.strip().count("\n"):
            wrong.append(f"{label}: {verb[0]} refuses in several lines: {text[:500]}")
        # A person's own file has no checksum, and means what it says: another text is another right question.
        elif text != truth[verb] and not named and (kind not in OWN_FILES or after is None):
            wrong.append(f"{label}: {verb[0]} says something else, and names nothing: {text[:1500]}")
    return wrong


def test_a_damaged_file_is_named_or_changes_nothing() -> None:
    with workplace() as (folder, truth):
        assert [line for seed in range(2 * len(KINDS)) for line in case(seed, folder, truth)] == []
