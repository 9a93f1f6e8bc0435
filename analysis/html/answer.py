"""The answer on a page: headline, intervals in small type, the caveat in a box, and one table whose rows are the forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from analysis.answer import Answer, Line
from analysis.colours import VERDICTS, is_hollow, kind_of
from analysis.figures.drawing import FEW_SEEDS, interval_limits
from analysis.tables.table import number_text

_WIDTH, _HEIGHT, _EDGE = 240, 22, 8  # of a row's drawing, and what its arrows need on either side
_TICKS_APART = 34  # for the text of two ticks
_TALL = 16  # rows beyond which the table scrolls in its box


def verdict_style() -> str:
    """The colours of verdicts as variables of a page, on light and on dark ground, with a class for each."""
    light = "".join(f"--{kind}:{look.colour};" for kind, look in VERDICTS.items())
    dark = "".join(f"--{kind}:{look.dark};" for kind, look in VERDICTS.items())
    classes = "".join(f".{kind}{{color:var(--{kind})}}" for kind in VERDICTS)
    return f":root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}{classes}"


def answer_html(answer: Answer) -> str:
    """One answer, as the first screen of a page."""
    texts = [
        ("headline", answer.headline),
        ("small", answer.small),
        ("caveat", [answer.caveat]),
        ("small", [answer.foot]),
    ]
    *parts, foot = (f'<p class="{kind}">{escape(" ".join(lines))}</p>' * any(lines) for kind, lines in texts)
    return "".join([*parts, forest_table(answer) if answer.lines else "", foot])


def forest_table(answer: Answer) -> str:
    """The comparisons as a table: each row draws its interval and has its numbers and its verdict beside it."""
    lines, touched = answer.lines, any(line.touched for line in answer.lines)
    limits = interval_limits([line.estimate.scaled(line.metric.scale) for line in lines])
    heads = {
        "": escape(answer.head),
        "plot": _axis(limits, lines),
        "number": escape(answer.unit),
        "interval": "95 % interval",
    }
    heads |= {kind: kind for kind in ("verdict", *["touched"] * touched)}
    head = "".join(f'<th scope="col" class="{kind}">{text}</th>' for kind, text in heads.items())
    rows = "".join(_row(line, limits, touched) for line in lines)
    tall = " tall" * (len(lines) > _TALL)
    return (
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="Comparisons"><table class="forest">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(line: Line, limits: tuple[float, float], touched: bool) -> str:
    kind = kind_of(line.estimate.verdict) if line.known else "not"
    cells = [
        f'<th scope="row">{escape(line.name)}</th>',
        f'<td class="plot {kind}">{_drawn(line, limits)}</td>',
        f'<td class="number">{line.points}</td>',
        f'<td class="interval">{line.interval}</td>',
        f'<td class="verdict"><span class="{kind}">{escape(line.verdict)}</span></td>',
        *[f'<td class="touched">{escape(line.touched)}</td>'] * touched,
    ]
    faded = ' class="faded"' if line.known and line.estimate.seeds < FEW_SEEDS else ""
    return f"<tr{faded}>{''.join(cells)}</tr>"


def _place(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return _EDGE + (min(max(value, low), high) - low) / (high - low) * (_WIDTH - 2 * _EDGE)


def _drawn(line: Line, limits: tuple[float, float]) -> str:
    """Band of the margin, line at zero, interval with an arrow where it leaves the axis, and the mark of the verdict."""
    shown, middle = line.estimate.scaled(line.metric.scale), _HEIGHT / 2
    parts = []
    if shown.margin is not None:
        left, right = (_place(end, limits) for end in (-shown.margin, shown.margin))
        parts.append(f'<rect class="band" x="{left:.1f}" y="1" width="{right - left:.1f}" height="{_HEIGHT - 2}"/>')
    zero = _place(0, limits)
    parts.append(f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{_HEIGHT}"/>')
    if not math.isnan(shown.low):
        low, high = (_place(end, limits) for end in (shown.low, shown.high))
        parts.append(f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>')
        for end, x, way in ((shown.low < limits[0], low, -1), (shown.high > limits[1], high, 1)):
            parts += [f'<path class="mark" d="M{x:.1f} {middle - 4}l{way * 7} 4l{-way * 7} 4z"/>'] * end
    if line.known:
        hollow = " hollow" * is_hollow(shown.verdict)
        parts.append(f'<circle class="mark{hollow}" cx="{_place(shown.value, limits):.1f}" cy="{middle}" r="4.5"/>')
    text = escape(f"{line.points} {line.interval and f'({line.interval})'}".strip())
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text}">{"".join(parts)}</svg>'


def _axis(limits: tuple[float, float], lines: Sequence[Line]) -> str:
    """The values at zero, at the margin where there is room, and at the ends of the axis."""
    first = lines[0]
    margin = first.metric.scale * (first.estimate.margin or 0.0)
    wanted = [0.0, margin, -margin, *(0.85 * end for end in limits)]
    shown: list[tuple[float, str]] = []
    for value in wanted:
        rounded = float(f"{value:.1g}") if abs(value) != margin else value
        x = _place(rounded, limits)
        if limits[0] <= rounded <= limits[1] and all(abs(x - other) > _TICKS_APART for other, _ in shown):
            shown.append((x, number_text(rounded, 0 if rounded == int(rounded) else 1, signed=True).replace("+0", "0")))
    texts = "".join(f'<text x="{x:.1f}" y="15" text-anchor="middle">{text}</text>' for x, text in shown)
    return f'<svg viewBox="0 0 {_WIDTH} 20" aria-hidden="true">{texts}</svg>'
