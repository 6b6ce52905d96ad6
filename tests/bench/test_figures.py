"""Figures, their budgets and the table."""

from __future__ import annotations

import math

import pytest

from bench.figures import Figure, exit_code, number, table


def figure(value: float = 1.0, budget: float | None = None, **fields: object) -> Figure:
    return Figure(**{"name": "cost", "unit": "ms", "value": value, "budget": budget, **fields})  # type: ignore[arg-type]


def test_a_value_up_to_its_budget_is_not_over() -> None:
    assert not figure(5.0, 5.0).over
    assert figure(5.1, 5.0).over


def test_a_floor_is_kept_from_its_value_on() -> None:
    assert not figure(1200.0, 1200.0, floor=True).over
    assert figure(1199.0, 1200.0, floor=True).over


def test_a_figure_without_a_budget_is_never_over() -> None:
    assert not figure(1e9).over


@pytest.mark.parametrize("floor", [False, True])
def test_what_is_no_number_keeps_no_budget(floor: bool) -> None:
    assert figure(math.nan, 1.0, floor=floor).over


def test_the_exit_code_is_1_when_one_figure_is_over() -> None:
    assert exit_code([figure(1.0, 2.0), figure(3.0, 2.0)]) == 1
    assert exit_code([figure(1.0, 2.0), figure(3.0)]) == 0


def test_a_line_shows_value_budget_verdict_and_baseline() -> None:
    _, line = table([figure(3.0, 2.0, baseline="9 (others)")]).splitlines()
    assert line.split() == ["cost", "3", "ms", "≤", "2", "OVER", "9", "(others)"]


def test_a_floor_shows_as_one() -> None:
    assert "≥ 1,200  ok" in table([figure(3000.0, 1200.0, floor=True)])


def test_a_figure_for_information_has_no_verdict() -> None:
    _, line = table([figure(3.0)]).splitlines()
    assert line.split() == ["cost", "3", "ms"]


def test_columns_stand_below_each_other() -> None:
    lines = table([figure(1.0, 2.0), figure(12345.0, 2.0, name="a longer name")]).splitlines()
    assert len({line.index("≤") for line in lines[1:]}) == 1


def test_a_note_stands_below_its_figure() -> None:
    lines = table([figure(note="how"), figure(name="next")]).splitlines()
    assert [line.strip() for line in lines[2:]] == ["how", lines[3].strip()]
    assert lines[3].startswith("next")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0838, "0.0838"), (1234.5, "1,234"), (12.3456, "12.35"), (0.0, "0"), (4.2e-7, "4e-07")],
)
def test_numbers_have_the_digits_that_matter(value: float, shown: str) -> None:
    assert number(value) == shown
