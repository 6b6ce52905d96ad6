from __future__ import annotations

import pytest

from router.pool.endpoint import EngineMetrics
from router.pool.outliers import FAILURES, OUT_S, Outliers
from tests.support import make

A, B = make.endpoint("a:1"), make.endpoint("b:1")


class Fixture:
    def __init__(self) -> None:
        self.now = 100.0
        self.outliers = Outliers(lambda: self.now)

    def fail(self, address: str = "a:1", times: int = FAILURES, status: int = 503) -> None:
        for _ in range(times):
            self.outliers.answered(address, status)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_failures_in_a_row_keep_an_endpoint_out_until_its_time_is_over(status: int) -> None:
    fixture = Fixture()
    fixture.fail(times=FAILURES - 1, status=status)
    assert fixture.outliers.without([A, B]) == [A, B]
    fixture.fail(times=1, status=status)
    assert fixture.outliers.without([A, B]) == [B]
    fixture.now += OUT_S + 0.1
    assert fixture.outliers.without([A, B]) == [A, B]
    fixture.fail(times=FAILURES - 1)
    assert fixture.outliers.without([A, B]) == [A, B]


@pytest.mark.parametrize("status", [200, 400, 404, 429, 500])
def test_any_other_answer_ends_the_row(status: int) -> None:
    fixture = Fixture()
    fixture.fail(times=FAILURES - 1)
    fixture.outliers.answered("a:1", status)
    fixture.fail(times=FAILURES - 1)
    assert fixture.outliers.without([A, B]) == [A, B]


def test_a_scrape_after_the_failures_proves_that_it_is_there() -> None:
    fixture = Fixture()
    fixture.fail()
    before = make.endpoint("a:1", metrics=EngineMetrics(scraped_at=99.0))
    after = make.endpoint("a:1", metrics=EngineMetrics(scraped_at=101.0))
    assert fixture.outliers.without([before, B]) == [B]
    assert fixture.outliers.without([after, B]) == [after, B]


def test_of_prefills_a_scrape_tells_nothing() -> None:
    now = 100.0
    outliers = Outliers(lambda: now, scrapes_tell=False)
    after = make.endpoint("a:1", metrics=EngineMetrics(scraped_at=101.0))
    for _ in range(FAILURES):
        outliers.came("a:1", failed=True)
    assert outliers.out([after, B]) == [after]
    now += OUT_S + 0.1
    assert outliers.out([after, B]) == []
    outliers.came("a:1", failed=True)
    outliers.came("a:1", failed=False)
    outliers.came("a:1", failed=True)
    assert outliers.out([after, B]) == []


def test_where_all_fail_all_may_be_picked() -> None:
    fixture = Fixture()
    fixture.fail("a:1")
    fixture.fail("b:1")
    assert fixture.outliers.without([A, B]) == [A, B]
