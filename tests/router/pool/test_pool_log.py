"""What the log says of endpoints."""

from __future__ import annotations

from structlog.testing import capture_logs

from router.pool.endpoint import EngineMetrics
from router.pool.pool import DEAD_AFTER, Pool
from router.pool.pool_log import PoolLog
from tests.support import make

A = "127.0.0.1:8000"


def test_each_turn_in_an_endpoints_life_is_one_line() -> None:
    pool = Pool()
    pool.listen(PoolLog())
    with capture_logs() as lines:
        pool.replace([make.endpoint(A, name="a")])
        pool.scraped(A, EngineMetrics(process_start=1.0))
        for _ in range(DEAD_AFTER + 2):
            pool.scrape_failed(A)
        pool.scraped(A, EngineMetrics(process_start=2.0))
        pool.scraped(A, EngineMetrics(process_start=2.0))
        pool.replace([make.endpoint(A, name="a", labels={"x": "y"})])
        pool.replace([])
    turns = ["added", "died", "revived", "restarted", "changed", "removed"]
    assert [line["event"] for line in lines] == [f"endpoint.{turn}" for turn in turns]
    assert {(line["endpoint"], line["name"]) for line in lines} == {(A, "a")}
