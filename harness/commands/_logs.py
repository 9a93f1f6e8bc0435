"""`harness report logs=`: other trainers' logs, drawn and not stored."""

from collections.abc import Sequence
from pathlib import Path

from harness.commands._answer import Report, formats_of
from harness.commands._arguments import key_values, listed_names
from harness.configuration.error import ConfigError
from harness.exchange.logs import Curves, read_curves


def draw_logs(items: Sequence[str]) -> Report:
    """Draw `logs=FILE[,FILE]` into the folder `out=`. Raises `ConfigError`."""
    from analysis.figures.drawing import FORMATS, figure_style, save
    from analysis.figures.logs import logs_figure

    values = key_values(items, ("logs", "out", "formats"), "report logs=", texts=("logs", "formats"))
    if not values.get("out"):
        raise ConfigError("report logs= needs out=DIR")
    runs: dict[str, Curves] = {}
    for name in listed_names(values["logs"]):
        path = Path(name)
        for run, curves in read_curves(path).items():
            label = run if run != path.stem or path.parent == Path() else f"{path.parent.name}/{run}"
            if path.parent.name.startswith("checkpoint-"):  # of TRL
                label = f"{path.parent.parent.name}/{label}"
            if label in runs:
                raise ConfigError(f"two logs are called {label}; rename a file")
            runs[label] = curves
    with figure_style("paper"):
        formats = formats_of(values["formats"]) if values.get("formats") else FORMATS
        paths = save(logs_figure(runs), Path(values["out"]), "logs", formats)
    lines = [
        f"{run}: {', '.join(f'{name} of {len(points)} steps' for name, points in c.items())}" for run, c in runs.items()
    ]
    return Report("", [], [], "\n".join(lines), "logs", str(values["out"]), list(map(str, paths)))
