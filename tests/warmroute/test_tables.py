from __future__ import annotations

from warmroute.tables import plain, table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(table(("name", "n"), [("a", "10"), ("long name", "1")])) == [
        "name        n",
        "a          10",
        "long name   1",
    ]


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    assert plain("a\x1b[2Jb\n") == "a?[2Jb?"
    assert list(table(("x",), [("\x1b[31m",)])) == ["x", "?[31m"]
