"""Colours on a dark ground: what stands there for each of the figures' colours on white."""

from __future__ import annotations

from collections.abc import Mapping

# Every replacement has a contrast of at least 3 with the page's dark ground, #16181b.
DARK: Mapping[str, str] = {
    "#ffffff": "#16181b",
    "#000000": "#ececec",
    "#dddddd": "#3a3f45",
    "#888888": "#a9a9a9",
    "#777777": "#a9a9a9",
    "#0072b2": "#4fa8e0",
    "#7f3c8d": "#c58bd2",
    "#8c6d31": "#b8975a",
}


def on_both(colour: str) -> str:
    """Make the CSS colour that is ``colour`` on a light page and its counterpart on a dark one."""
    return f"light-dark({colour}, {DARK.get(colour.lower(), colour)})"


def dark(svg: str) -> str:
    """Recolour a drawing for a dark ground; glyphs have no colour of their own, so the root gives them one."""
    for light, replaced in DARK.items():
        svg = svg.replace(light, replaced)
    return svg.replace("<svg ", f'<svg fill="{DARK["#000000"]}" ', 1)
