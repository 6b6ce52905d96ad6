"""A measured figure beside its budget and its baseline, and the table that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

OVER = "OVER"

_COLUMNS = ("figure", "value", "budget", "", "baseline")


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        name: What was measured.
        value: How much it is, in `unit`.
        unit: Unit of `value` and `budget`.
        budget: What it may be at most; None where the figure is for information.
        floor: `budget` is what it must be at least.
        baseline: What others need for the same, and where that is from.
        note: How it was measured, where the name does not say.
    """

    name: str
    value: float
    unit: str
    budget: float | None = None
    floor: bool = False
    baseline: str = ""
    note: str = ""

    @property
    def over(self) -> bool:
        """The budget is not kept. A value that is no number keeps none."""
        if self.budget is None:
            return False
        return not (self.value >= self.budget if self.floor else self.value <= self.budget)


def table(figures: Iterable[Figure]) -> str:
    """All figures, one a line, in columns; a note stands below its figure."""
    shown = list(figures)
    rows = [_COLUMNS, *map(_row, shown)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = [_line(_COLUMNS, widths)]
    for figure, row in zip(shown, rows[1:], strict=True):
        lines.append(_line(row, widths))
        if figure.note:
            lines.append(f"    {figure.note}")
    return "\n".join(lines)


def exit_code(figures: Iterable[Figure]) -> int:
    """1 if a figure is over its budget."""
    return int(any(figure.over for figure in figures))


def number(value: float) -> str:
    """Four digits that matter, and no exponent for what people read as a count."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 0.001 else f"{value:.1g}"


def _row(figure: Figure) -> Sequence[str]:
    budget, verdict = "", ""
    if figure.budget is not None:
        sign = "\N{GREATER-THAN OR EQUAL TO}" if figure.floor else "\N{LESS-THAN OR EQUAL TO}"
        budget = f"{sign} {number(figure.budget)}"
        verdict = OVER if figure.over else "ok"
    return figure.name, f"{number(figure.value)} {figure.unit}", budget, verdict, figure.baseline


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    name, value, *rest = row
    name_width, value_width, *rest_widths = widths
    cells = [f"{name:<{name_width}}", f"{value:>{value_width}}"]
    cells += [f"{cell:<{width}}" for cell, width in zip(rest, rest_widths, strict=True)]
    return "  ".join(cells).rstrip()
