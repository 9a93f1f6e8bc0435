"""The HTML page: self-contained, and its JavaScript agrees with the Python objective to 1e-9 in a real browser."""

from __future__ import annotations

import functools
import html as html_module
import json
import math
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.configuration.algorithm import AlgorithmConfig
from harness.explain.page import PRESETS, html
from harness.explain.shares import as_json, explain, make_group, systems

NOT_DRAWN = {"best_worst_dpo", "offline_dpo", "vespo"}  # pairs, and a weight of whole responses
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """<script>
const cases = %s;
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = JSON.stringify({
  cases: cases.map((group) => explainGroup(data, group)),
  rows: document.querySelectorAll("#body tr").length,
  absent: document.getElementById("absent").textContent,
  sliders: document.querySelectorAll("input[type=range]").length,
  presets: [...document.querySelectorAll("#presets button")].map((button) => { button.click();
    return [button.textContent, document.querySelectorAll("#rollouts tr").length]; }),
});
document.body.append(answer);
</script></body>"""


@functools.cache
def algorithms() -> dict[str, AlgorithmConfig]:
    return systems(2000)


@functools.cache
def drawn() -> dict[str, AlgorithmConfig]:
    return {name: algorithm for name, algorithm in algorithms().items() if name not in NOT_DRAWN}


def cases() -> list[dict[str, list[float]]]:
    """The presets, and random groups with ties, dead groups and ratios on both sides of the clip ranges."""
    rng = random.Random(7)
    groups: list[dict[str, list[float]]] = [
        {**preset, "ratios": [1.0] * len(preset["rewards"])} for preset in PRESETS.values()
    ]
    for _ in range(40):
        size = rng.randint(1, 8)
        choices = rng.choice(
            [[0, 1], [-1, 1], [0, 0.1, 1.1], [0.7], [rng.uniform(-2, 2) for _ in range(size)]]
        )
        groups.append(
            {
                "rewards": [rng.choice(choices) for _ in range(size)],
                "lengths": [rng.randint(1, 300) for _ in range(size)],
                "ratios": [rng.choice([1.0, round(rng.uniform(0.6, 1.7), 2)]) for _ in range(size)],
            }
        )
    return groups


def page(groups: list[dict[str, list[float]]]) -> str:
    text = html(make_group([1.1, 0.1, 0.0, 1.1], [220, 950, 1100, 180], cap=2000), algorithms())
    return text.replace("</body>", PROBE % json.dumps(groups))


@functools.cache
def python_answers() -> list[dict[str, list[dict[str, float]]]]:
    """What the objective says of `cases()`, once for browser and Node."""
    return [python_answer(group) for group in cases()]


def python_answer(group: dict[str, list[float]]) -> dict[str, list[dict[str, float]]]:
    lengths = [int(n) for n in group["lengths"]]
    new = [math.log(ratio) - 1.0 for ratio in group["ratios"]]
    return as_json(explain(make_group(group["rewards"], lengths, [-1.0] * len(new), new, cap=2000), drawn()))


def compare(answer: list[dict[str, list[dict[str, float]]]]) -> None:
    for group, ours, theirs in zip(cases(), python_answers(), answer, strict=True):
        assert list(theirs) == list(ours)
        for name, rollouts in ours.items():
            for mine, other in zip(rollouts, theirs[name], strict=True):
                assert other == pytest.approx(mine, rel=1e-9, abs=1e-9), (name, group)


def test_the_page_needs_nothing_from_outside() -> None:
    text = html(make_group([1, 0], [10, 20]), algorithms())
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(|https?://", text)
    assert set(PRESETS) == {"length bias", "all correct", "uniform length", "tight cluster"}


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.optional
def test_the_page_agrees_with_the_objective_in_a_browser(tmp_path: Path) -> None:
    groups = cases()
    file = tmp_path / "page.html"
    file.write_text(page(groups), encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [
        f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=20000",
        "--dump-dom",
        file.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="answer">(.*?)</pre>', result.stdout, re.DOTALL)
    assert found, result.stdout[-2000:] + result.stderr[-2000:]
    answer = json.loads(html_module.unescape(found[1]))
    compare(answer["cases"])
    assert answer["rows"] == len(drawn())
    assert all(name in answer["absent"] for name in NOT_DRAWN)
    assert answer["sliders"] == 12
    assert answer["presets"] == [[name, len(preset["rewards"])] for name, preset in PRESETS.items()]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_the_algebra_agrees_with_the_objective_in_node(tmp_path: Path) -> None:
    groups = cases()
    text = page(groups)
    algebra = text[text.index('"use strict";') : text.index("</script>")]
    data = re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)
    assert data
    script = tmp_path / "run.js"
    call = f"{json.dumps(groups)}.map((g) => explainGroup({data[1]}, g))"
    script.write_text(f"{algebra}\nprocess.stdout.write(JSON.stringify({call}));", encoding="utf-8")
    result = subprocess.run(["node", str(script)], capture_output=True, text=True, timeout=60, check=True)
    compare(json.loads(result.stdout))
