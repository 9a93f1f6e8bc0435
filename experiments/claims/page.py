"""What the field claims, and what it did here: the table and the figure of all claims.

python experiments/claims/page.py results --out DIR    # of the claims that a results root holds
python experiments/claims/page.py                      # the published ones again, from effects.csv beside this file
python experiments/claims/page.py results              # puts the claims of a results root among the published ones

It writes effects.csv, claims.md and figures/claims.*. Published claims that a tuned experiment answers are read from its table.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.answer import finding_of
from analysis.colours import VERDICTS
from analysis.effects import declared_effects
from analysis.figures.drawing import figure_style, legend_below, new_figure, save
from analysis.frames import Frames, load_experiment
from analysis.results import results_of
from analysis.tables.table import number_text
from harness.experiment.planning import make_plan
from harness.statistics.intervals import Estimate, finding
from harness.store import ResultStore
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text

HERE = Path(__file__).parent
PUBLISHED = HERE.parents[1] / "results" / "published"
COLOURS = {
    "holds here": VERDICTS["higher"].colour, "holds here, too small to matter": VERDICTS["higher"].colour,
    "reversed here": VERDICTS["lower"].colour, "reversed here, too small to matter": VERDICTS["lower"].colour,
    "no effect": VERDICTS["equivalent"].colour, "not resolved": "#777777", "not engaged": "#bbbbbb",
}  # fmt: skip
# Claim → the tuned experiment that has asked it, its arm, and whether its difference is that to the first arm.
TUNED = {
    "dapo_overlong_filtering": ("dapo_tuned", "+ overlong filtering", "delta"),
    "dapo_clip_higher": ("dapo_tuned", "+ clip-higher", "delta"),
    "dapo_soft_overlong": ("dapo_tuned", "+ soft overlong punishment", "delta"),
    "dapo_token_level_loss": ("dapo_tuned", "+ token-level loss", "delta"),
    "dapo_dynamic_sampling": ("dapo_tuned", "+ dynamic sampling", "delta"),
    "dapo_whole": ("dapo_tuned", "+ dynamic sampling", "delta_base"),
    "data_max_variance": ("data_policies", "half of each group, maximum variance", "delta"),
    "data_solve_rate_band": ("data_policies", "solve rate within 0.2 and 0.8", "delta"),
    "data_top_advantage": ("data_policies", "top half by advantage", "delta"),
    "data_softmax_advantage": ("data_policies", "softmax of advantages", "delta"),
}
# Claim → the judged table of other people's runs that speaks on it, and the arm there.
PUBLIC = {
    "max_rl": ("remax_pass8", "maxrl"),
    "drgrpo_accuracy": ("remax_pass8", "drgrpo"),
    "data_solve_rate_band": ("dataflex_math", "diffband"),
    "data_top_advantage": ("dataflex_math", "topk"),
    "data_max_variance": ("dataflex_math", "maxvar"),
    "data_softmax_advantage": ("dataflex_math", "softmax"),
}
_SCORES = {"remax_pass8": "Pass@8", "dataflex_math": "five benchmarks"}
_MAIN = (
    "crossfamily, Qwen2.5-7B-base",
    "main, Qwen2.5-7B-Instruct",
)  # of DataFlex-RL's groups; the claims are of the base model
_DIRECTIONS = {"equivalent": "the same", "not_lower": "no worse", "not_higher": "no better"}
_ARROWS = {"higher": "→", "not_lower": "→|", "lower": "←", "not_higher": "|←", "equivalent": "="}
_EFFECTS = [
    "claim",
    "title",
    "comparison",
    "metric",
    "unit",
    "effect",
    "effect_low",
    "effect_high",
    "margin",
    "seeds",
    "words",
    "engaged",
    "rates",
    "times_tokens",
]
_NAMES = {"value": "effect", "low": "effect_low", "high": "effect_high"}
_HEADS = ("claim", "published", "of", "says", "here", "rates", "tokens", "SmolLM2", "public runs", "differs here")
_WIDEST = 6.0  # margins; longer whiskers are cut at the frame


def effects_of(root: Path) -> pd.DataFrame:
    """One row a claim that the results root holds and whose runs have finished, values as shown (``unit``)."""
    store, rows = ResultStore(root), []
    for name in store.plans():
        if not store.plan(name).get("claim"):
            continue
        frames = load_experiment(root, name)
        results = results_of(frames)
        if not (effects := declared_effects(results)) or frames.unfinished:
            continue
        row = {_NAMES.get(key, key): value for key, value in effects[0].row.items()} | {
            "claim": name.removeprefix("claim_"),
            "title": frames.plan.title,
            "words": str(finding_of(results)),
        }
        rows.append(row | {"rates": _rates(frames), "times_tokens": _times_tokens(frames)})
    return pd.DataFrame(rows)


def _rates(frames: Frames) -> str:
    """The learning rates of reference and arm, `2e-4, 4e-4`; an asterisk where one lies at the edge of what was tried."""
    tuning, said = frames.plan.tuning, []
    for arm in frames.plan.arms:
        rate = float(frames.settings[arm.name]["optimizer"]["learning_rate"])
        points = [float(point.rpartition("=")[2]) for point in (tuning.scores or {})[arm.name]] if tuning else [0.0]
        mark = "*" if rate in (min(points), max(points)) else ""
        said.append(f"{rate:.0e}".replace("e-0", "e-") + mark)
    return ", ".join(said)


def _times_tokens(frames: Frames) -> float:
    """Generated tokens of the arm, as a multiple of its reference's."""
    tokens = frames.spent.groupby("arm")["tokens"].mean()
    reference, arm = (tokens.get(planned.name, float("nan")) for planned in frames.plan.arms)
    return round(arm / reference, 2) if reference else float("nan")


def tuned_effects() -> Iterator[dict[str, object]]:
    """The claims that a published tuned experiment has asked; its intervals hold together."""
    for claim, (experiment, arm, column) in TUNED.items():
        table = pd.read_csv(PUBLISHED / experiment / "tables" / f"{experiment}.csv").set_index("arm")
        trials = pd.read_csv(PUBLISHED / experiment / "tables" / f"{experiment}-tuning.csv").set_index("arm")
        row, plan = table.loc[arm], make_plan([f"claim={claim}"])
        tokens = _published_tokens(experiment)
        reference = table.index[1] if column == "delta_base" else table.index[table.index.get_loc(arm) - 1]
        reference = reference if experiment == "dapo_tuned" else table.index[1]
        ends = [row[f"{column}{end}"] for end in ("", "_low", "_high", "_margin")]
        estimate = Estimate(*ends[:3], seeds=int(row[f"{column}_seeds"]), margin=ends[3])
        rates = [trials.loc[name, "best"].removeprefix("learning rate ") for name in (reference, arm)]
        yield {
            "claim": claim,
            "title": plan.title,
            "comparison": f"{experiment}: {arm} against {reference}",
            "metric": "avg",
            "unit": "points",
            "engaged": row["engaged"] if column == "delta" else "",
            **dict(
                zip(
                    ("effect", "effect_low", "effect_high", "margin"),
                    (round(100 * end, 4) for end in ends),
                    strict=True,
                )
            ),
            "seeds": estimate.seeds,
            "words": str(finding(estimate, plan.expects or "higher", "hardly" in str(row["engaged"]))),
            "rates": ", ".join(f"{float(rate):.0e}".replace("e-0", "e-") for rate in rates),
            "times_tokens": round(tokens[arm] / tokens[reference], 2),
        }


def _published_tokens(experiment: str) -> dict[str, float]:
    """Thousands of generated tokens that a run of each arm took, by the published answer."""
    text = (PUBLISHED / experiment / "tables" / "answer.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.partition("| a run takes |")[2].splitlines()]
    return {row[0]: float("".join(row[3].split())) for row in rows if len(row) == 5 and row[0] != "---"}


def claims_text(effects: pd.DataFrame) -> str:
    """The table of all claims, those that hold first, and how often each word was said."""
    language = pd.read_csv(HERE / "language_model.csv", keep_default_na=False).assign(unit="points")
    rows = []
    for row in effects.to_dict("records"):
        name = row["claim"]
        claim = make_plan([f"claim={name}"]).record()["claim"]
        tokens = f"× {row['times_tokens']:.2g}" if row.get("times_tokens", 0) > 0 else ""
        found = [(one["where"], _cell(one)) for _, one in language[language["claim"] == name].iterrows()]
        smollm = "; ".join(f"{where} {cell}".strip() for where, cell in found)
        setting = "" if "not read" in claim["setting"] else claim["setting"]
        says = _DIRECTIONS.get(claim["expects"], claim["expects"])
        texts = (row["title"], claim["statement"] + _paper(claim["source"]), setting, says, _cell(row), row["rates"])
        texts += (tokens, smollm, _public(name), claim["differs"])
        rows.append(([*COLOURS].index(row["words"]), str(row["title"]).lower(), " | ".join(map(str, texts))))
    counts = Counter(effects["words"]).most_common()
    said = f"{len(effects)} claims: {', '.join(f'{count} {word}' for word, count in counts)}."
    lines = [f"| {text} |" for *_, text in sorted(rows)]
    return "\n".join([said, "", f"| {' | '.join(_HEADS)} |", f"{'|---' * len(_HEADS)}|", *lines]) + "\n"


def _cell(row: pd.Series) -> str:
    """A difference with its interval and its verdict."""
    digits, unit = (2 if row["unit"] == "nats" else 1), "" if row["unit"] == "points" else f" {row['unit']}"
    value, low, high = (number_text(row[name], digits, signed=True) for name in ("effect", "effect_low", "effect_high"))
    return f"{value} [{low}, {high}]{unit} {row['words'].replace('holds', '**holds**').replace('reversed', '**reversed**')}"


def _public(claim: str) -> str:
    """What other people's runs say of a claim, model by model; nothing where none do."""
    if claim not in PUBLIC:
        return ""
    name, arm = PUBLIC[claim]
    judged = pd.read_csv(PUBLISHED / "public_tables" / name / f"{name}.csv")
    judged = judged[(judged["arm"] == arm) & (judged["group"].isin(_MAIN) | (name != "dataflex_math"))]
    scale = 1 if judged["score"].max() > 1 else 100  # DataFlex-RL's table is in per cent
    said = []
    for _, row in judged.iterrows():
        shown = {
            _NAMES[key]: scale * row[name]
            for key, name in (("value", "delta"), ("low", "delta_low"), ("high", "delta_high"))
        }
        group = row["group"].rpartition(", ")[2]
        said.append(f"{group} {_cell(pd.Series(shown | {'unit': 'points', 'words': row['delta_verdict']}))}")
    return f"{_SCORES[name]}: {'; '.join(said)} ([runs](../../results/published/public_tables/{name}))"


def _paper(text: str) -> str:
    """The number of the first paper that a source names, as a link; nothing where it names none."""
    number = re.search(r"arXiv:(\d{4}\.\d{5})", text)
    return f" [{number[1]}](https://arxiv.org/abs/{number[1]})" if number else ""


def claims_figure(effects: pd.DataFrame) -> Figure:
    """One row a claim, by verdict and effect; the arrow after its name is what the source predicts.

    Effects are in points where all claims are and have one margin, else in margins.
    """
    effects = effects.dropna(subset="effect_low")
    in_points = set(effects["unit"]) == {"points"} and effects["margin"].nunique() == 1
    margin = float(effects["margin"].iloc[0]) if in_points else 1.0
    scaled = effects[["effect", "effect_low", "effect_high"]].div(effects["margin"] / margin, axis=0)
    effects = effects.assign(**scaled)
    # Verdicts in the order of the legend, the largest effect of each first.
    effects = effects.assign(order=effects["words"].map([*COLOURS].index))
    effects = effects.sort_values(["order", "effect"], ascending=[True, False], kind="stable")
    figure, axes = new_figure(wide=True, height=0.8 + 0.11 * len(effects))
    # Letters are wider where the file is drawn than where the layout measures them.
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.04)
    axes.axvspan(-margin, margin, color=VERDICTS["equivalent"].colour, alpha=0.10, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    reach = min(_WIDEST * margin, 1.05 * float(scaled.abs().to_numpy().max(initial=1.2 * margin)))
    labels = []
    for y, (_, effect) in enumerate(effects.iterrows()):
        _draw(axes, effect, y, reach)
        expects = make_plan([f"claim={effect['claim']}"]).expects or ""
        labels.append(f"{textwrap.fill(effect['title'], 30)} {_ARROWS[expects]}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(-reach, reach)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        f"effect in {'points' if in_points else 'margins of the claim'}, with its 95 % interval (band: within the margin)\n"
        "predicted: → higher, ← lower, →| not lower, |← not higher, = none; triangle: beyond the frame"
    )
    words = effects["words"].unique().tolist()
    legend_below(figure, [axes.scatter([], [], s=22, color=COLOURS[word]) for word in words], words)
    return figure


def _draw(axes: Axes, effect: pd.Series, y: float, reach: float) -> None:
    """A line with a dot in the colour of the word, beyond ``reach`` an arrow."""
    value, colour = effect["effect"], COLOURS[effect["words"]]
    axes.plot([effect["effect_low"], effect["effect_high"]], [y, y], color=colour, linewidth=1.3, zorder=2)
    marker = "o" if abs(value) < reach else ">" if value > 0 else "<"
    axes.scatter([min(max(value, -0.97 * reach), 0.97 * reach)], [y], s=18, marker=marker, color=colour, zorder=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write effects, table and figure; 0, or 2 where a results root holds no claim that has finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, help="results root")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for what is written")
    options = parser.parse_args(arguments)
    effects = pd.DataFrame() if options.root is None else effects_of(options.root)
    if options.root is not None and not len(effects):
        parser.exit(2, f"{options.root} holds no claim that has finished; run one with: harness run claim=NAME\n")
    if options.out == HERE:
        known = HERE / "effects.csv"
        before = pd.read_csv(known) if known.exists() else pd.DataFrame()
        effects = pd.concat([before, pd.DataFrame(tuned_effects()), effects], ignore_index=True)
        effects = effects.drop_duplicates("claim", keep="last").sort_values("claim", ignore_index=True)
    effects = effects.reindex(columns=_EFFECTS)
    write_file(options.out / "effects.csv", csv_text(effects).encode())
    write_file(options.out / "claims.md", f"# All claims\n\n{claims_text(effects)}".encode())
    with figure_style("paper"):
        save(claims_figure(effects), options.out / "figures", "claims", ("png",))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
