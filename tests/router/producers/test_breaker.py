from __future__ import annotations

from router.producers.breaker import FAILURES, FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker


class Fixture:
    def __init__(self) -> None:
        self.now = 0.0
        self.breaker = Breaker(lambda: self.now)

    def fail(self, times: int = 1) -> None:
        for _ in range(times):
            assert self.breaker.allows()
            self.breaker.record(failed=True)


def test_single_failures_change_nothing() -> None:
    fixture = Fixture()
    for _ in range(10):
        fixture.fail(FAILURES - 1)
        fixture.breaker.record(failed=False)
    assert fixture.breaker.allows()


def test_failures_in_a_row_open_it_until_a_probe_succeeds() -> None:
    fixture = Fixture()
    fixture.fail(FAILURES)
    assert not fixture.breaker.allows()
    fixture.now += FIRST_PAUSE_S
    assert fixture.breaker.allows()
    assert not fixture.breaker.allows()
    fixture.breaker.record(failed=False)
    assert fixture.breaker.allows()
    assert fixture.breaker.allows()


def test_each_failed_probe_doubles_the_pause_up_to_a_bound() -> None:
    fixture = Fixture()
    fixture.fail(FAILURES)
    pauses = []
    for _ in range(6):
        start = fixture.now
        while not fixture.breaker.allows():
            fixture.now += 0.25
        pauses.append(fixture.now - start)
        fixture.breaker.record(failed=True)
    assert pauses == [FIRST_PAUSE_S, 2, 4, 8, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    fixture.now += LONGEST_PAUSE_S
    assert fixture.breaker.allows()
    fixture.breaker.record(failed=False)
    fixture.fail(FAILURES)
    fixture.now += FIRST_PAUSE_S
    assert fixture.breaker.allows()


def test_calls_that_were_under_way_when_it_opened_do_not_lengthen_the_first_pause() -> None:
    fixture = Fixture()
    for _ in range(FAILURES + 8):
        assert fixture.breaker.allows()
    for _ in range(FAILURES):
        fixture.breaker.record(failed=True)
    fixture.now += FIRST_PAUSE_S
    assert fixture.breaker.allows()
