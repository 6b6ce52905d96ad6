from __future__ import annotations

from router.stopwatch import Stopwatch


def test_each_lap_counts_from_the_one_before() -> None:
    times = iter([1.0, 1.5, 3.5])
    watch = Stopwatch(lambda: next(times))
    watch.lap("parse")
    watch.lap("schedule")
    assert watch.times_ms == {"parse": 500.0, "schedule": 2000.0}
