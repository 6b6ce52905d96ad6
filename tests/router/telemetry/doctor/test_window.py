from __future__ import annotations

from router.telemetry.doctor.window import WINDOW_S, Lasting, Window


def test_growth_counts_from_the_start_until_the_window_moves_on() -> None:
    window = Window(0.0)
    assert window.growth("a", 3) == 3
    window.take(WINDOW_S, {"a": 3})
    assert window.growth("a", 5) == 5
    window.take(2 * WINDOW_S, {"a": 5})
    assert window.growth("a", 5) == 2
    window.take(3 * WINDOW_S, {"a": 5})
    assert window.growth("a", 5) == 0
    assert window.since == 2 * WINDOW_S


def test_a_snapshot_is_due_once_a_window() -> None:
    window = Window(0.0)
    assert not window.due(WINDOW_S - 1)
    assert window.due(WINDOW_S)
    window.take(WINDOW_S, {})
    assert not window.due(WINDOW_S + 1)


def test_a_counter_that_fell_began_anew() -> None:
    window = Window(0.0)
    window.begin("a", 10)
    assert window.growth("a", 12) == 2
    assert window.growth("a", 4) == 4


def test_what_others_count_begins_where_it_stands() -> None:
    window = Window(0.0)
    assert not window.knows(("hits", "e"))
    window.begin(("hits", "e"), 100)
    assert window.knows(("hits", "e"))
    assert window.growth(("hits", "e"), 130) == 30
    window.forget("e")
    assert not window.knows(("hits", "e"))


def test_a_condition_lasts_while_it_is_so_without_a_break() -> None:
    lasting = Lasting()
    lasting.follow(1.0, {"a"})
    lasting.follow(4.0, {"a", "b"})
    assert (lasting.for_s(5.0, "a"), lasting.for_s(5.0, "b"), lasting.for_s(5.0, "c")) == (4, 1, 0)
    lasting.follow(6.0, set())
    lasting.follow(7.0, {"a"})
    assert lasting.for_s(9.0, "a") == 2
