"""Numbers as people read them."""


def format_seconds(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.5 h`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def format_count(number: int, noun: str = "run") -> str:
    """`1 run`, `12 runs`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def format_amount(value: float, unit: str) -> str:
    """`3 points`, `1 point`, `0.5`."""
    return f"{value:g} {unit.removesuffix('s') if value == 1 else unit}".rstrip()
