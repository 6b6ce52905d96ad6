from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.pool.outliers import Outliers
from router.producers.facts import Facts
from router.producers.inflight import InFlightLoad
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import Decisions
from router.telemetry.page.overview import Overview, Overviews
from router.telemetry.page.tally import Tally
from tests.router.producers.test_prefix import Fixture, stored
from tests.support import make
from tests.support.records import A, B, cached, record


class Shop:
    """Everything that overviews are made of."""

    def __init__(self) -> None:
        self.fixture = Fixture()
        self.pool = self.fixture.pool
        self.outliers = Outliers(lambda: 100.0)
        self.load = InFlightLoad("load")
        self.comparison, self.decisions = Comparison(), Decisions()
        self.tally = Tally(90.0, self.comparison)
        self.degraded: list[str] = []
        self.overviews = Overviews(
            pool=self.pool,
            outliers=[self.outliers],
            prefixes=[self.fixture.prefix],
            loads=[self.load],
            tally=self.tally,
            decisions=self.decisions,
            ready=lambda: True,
            degraded=lambda: list(self.degraded),
        )

    def route(self, **fields: Any) -> None:
        told = cached(100, {"gpu": 2}, predicted=32, prefix_id="p", **fields)
        told.request_id = f"r{self.tally.totals.requests}"
        self.decisions.add(told)
        self.tally.routed(told)

    def at(self, now: float) -> Overview:
        return self.overviews.at(now)


def shown(overview: Overview, address: str) -> Any:
    return next(e for e in overview.endpoints if e.address == address)


def test_endpoints_are_shown_with_load_trust_and_share_of_traffic() -> None:
    shop = Shop()
    shop.fixture.announce(A, stored([1, 2], range(32)))
    shop.fixture.announce(B, stored([1], range(16)))
    shop.fixture.feeds[B].lost()
    shop.load.decided(make.request(), Facts(), make.decision(A))
    for address in (A, A, A, B):
        shop.route(address=address)
    overview = shop.at(100.0)
    a, b = shown(overview, A), shown(overview, B)
    assert (a.share, b.share) == (0.75, 0.25)
    assert (a.trust, b.trust) == ("exact", "stale")
    assert (a.blocks, a.in_flight, b.in_flight) == (2, 1, 0)
    assert a.recent.requests == 3
    assert (a.waiting, a.kv_usage) == (None, None)


def test_an_engine_that_sleeps_or_fails_shows() -> None:
    shop = Shop()
    shop.pool.scraped(A, make.endpoint(asleep=True, kv_usage=0.5).metrics)  # type: ignore[arg-type]
    for _ in range(3):
        shop.outliers.answered(B, 503)
    overview = shop.at(100.0)
    assert (shown(overview, A).asleep, shown(overview, A).kv_usage) == (True, 0.5)
    assert (shown(overview, A).kept_out, shown(overview, B).kept_out) == (False, True)


def test_totals_are_since_the_start_and_recent_since_the_oldest_copy() -> None:
    shop = Shop()
    shop.route()
    for i in range(200):
        shop.tally.tick(92.0 + 2 * i, shop.pool.snapshot())
    shop.route()
    overview = shop.at(492.0)
    assert (overview.total.requests, overview.recent.requests) == (2, 1)
    assert overview.up_s == 402.0
    assert overview.window_s == pytest.approx(300, abs=4)
    assert overview.total.shares == {}


def test_curves_are_what_happened_between_two_copies() -> None:
    shop = Shop()
    assert shop.at(90.0).point is None
    shop.route(took_ms=3.0)
    shop.tally.tick(92.0, ())
    shop.tally.tick(94.0, ())
    first, second = shop.overviews.points()
    assert (first.requests, first.failed, first.p50_ms) == (1, 0, 3.0)
    assert (second.requests, second.p50_ms, second.seconds) == (0, None, 2.0)
    assert shop.at(95.0).point == second


def test_latency_is_of_requests_that_were_given_an_endpoint() -> None:
    shop = Shop()
    shop.decisions.add(record("no", endpoint=None, took_ms=0.0))
    shop.route(took_ms=4.0)
    latency = shop.at(100.0).latency
    assert (latency.p50_ms, latency.p99_ms, latency.decisions) == (4.0, 4.0, 1)


def test_prefixes_and_what_is_wrong_are_told() -> None:
    shop = Shop()
    shop.degraded = ["something"]
    shop.route()
    shop.route()
    overview = shop.at(100.0)
    assert [hot.requests for hot in overview.prefixes] == [2]
    assert (overview.degraded, overview.ready) == (["something"], True)


def test_one_overview_serves_everybody_for_a_second() -> None:
    shop = Shop()
    first = shop.at(100.0)
    shop.route()
    assert shop.at(100.9) is first
    assert shop.at(101.0).total.requests == 1
    assert shop.at(50.0).at == 50.0


def test_an_overview_is_json_without_any_prompt() -> None:
    shop = Shop()
    shop.route()
    told = msgspec.json.decode(msgspec.json.encode(shop.at(100.0)))
    assert told["endpoints"][0]["address"] == A
    assert told["recent"]["tiers"] == {"gpu": 32}
