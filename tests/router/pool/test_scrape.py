"""The scraper keeps the pool's figures fresh, whatever single engines do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from router.pool import exposition
from router.pool.core_metrics import CoreMetricsParameters, CustomMetric, EngineConfig
from router.pool.dialects import DIALECTS
from router.pool.endpoint import Endpoint, EngineMetrics, ServedModels
from router.pool.page import Page
from router.pool.pool import Pool
from router.pool.scrape import Scraper, is_incomplete
from router.pool.sources import MetricsSourceParameters, ModelsSourceParameters
from tests.router.pool.engines import METRICS, Engine, running, until


def endpoint(engine: Engine, **labels: str) -> Endpoint:
    return Endpoint(name=engine.address, address=engine.address, labels=labels)


def make(pool: Pool, *, timeout_s: float = 5.0, models_interval_s: float = 60.0) -> Scraper:
    """A scraper in a hurry."""
    return Scraper(pool, interval_s=0.02, timeout_s=timeout_s, models_interval_s=models_interval_s)


@asynccontextmanager
async def scraping(scraper: Scraper) -> AsyncIterator[Scraper]:
    """Run a scraper for the length of a block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scraper.run())
        yield scraper
        task.cancel()


def waiting(pool: Pool) -> int | None:
    """The queue length of the pool's only endpoint."""
    [only] = pool.snapshot()
    return only.metrics.waiting if only.metrics is not None else None


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with running(Engine()) as engine:
        yield engine


async def test_metrics_and_models_reach_the_pool(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        [seen] = pool.snapshot()
        assert seen.metrics is not None
        assert seen.metrics.scraped_at > 0
        # Three intervals and one timeout.
        assert seen.metrics.good_for_s == pytest.approx(5.06)
        assert (seen.metrics.waiting, seen.metrics.kv_usage) == (3, 0.5)
        assert seen.models == ServedModels(names=("tiny",), root="org/tiny")
        engine.metrics = METRICS.replace(" 3\n", " 8\n")
        await until(lambda: waiting(pool) == 8)
    assert scraper.stats.scrapes >= 2
    assert scraper.stats.models == 1
    assert not scraper.stats.failures


async def test_the_first_pass_of_an_empty_pool_is_over_at_once() -> None:
    async with scraping(make(Pool())) as scraper:
        await asyncio.wait_for(scraper.first_pass.wait(), 5)


async def test_the_first_pass_waits_for_every_endpoint_even_one_that_fails() -> None:
    async with running(Engine()) as good, running(Engine()) as slow:
        slow.answering.clear()
        async with running(Engine()) as gone:
            pool = Pool([endpoint(good), endpoint(slow), endpoint(gone)])
        async with scraping(make(pool)) as scraper:
            await until(lambda: scraper.stats.failures["unreachable"] > 0 and slow.at_once > 0)
            await until(lambda: scraper.stats.scrapes > 0)
            assert not scraper.first_pass.is_set()
            slow.answering.set()
            await scraper.first_pass.wait()


async def test_an_endpoint_that_leaves_does_not_hold_up_the_first_pass(engine: Engine) -> None:
    engine.answering.clear()
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await until(lambda: engine.at_once == 1)
        pool.replace([])
        await asyncio.wait_for(scraper.first_pass.wait(), 5)


async def test_a_slow_engine_is_not_asked_again_before_it_answered(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with running(Engine()) as quick, scraping(make(pool)) as scraper:
        pool.replace([endpoint(engine), endpoint(quick)])
        await until(lambda: scraper.stats.scrapes > 0)
        engine.answering.clear()
        asked = quick.asked["/metrics"]
        await until(lambda: quick.asked["/metrics"] > asked + 10)
        assert engine.at_once == engine.most_at_once == 1
        engine.answering.set()


async def test_an_answer_that_takes_too_long_is_a_failed_scrape(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool, timeout_s=0.3)) as scraper:
        await scraper.first_pass.wait()
        engine.answering.clear()
        await until(lambda: scraper.stats.failures["timeout"] > 0)
        engine.answering.set()
        scrapes = scraper.stats.scrapes
        await until(lambda: scraper.stats.scrapes > scrapes)


async def test_a_dead_engine_leaves_the_candidates_until_it_is_back() -> None:
    async with AsyncExitStack() as life:
        engine = await life.enter_async_context(running(Engine()))
        pool = Pool([endpoint(engine)])
        port = int(engine.address.rpartition(":")[2])
        with capture_logs() as logs:
            async with scraping(make(pool)) as scraper:
                await scraper.first_pass.wait()
                await life.aclose()
                await until(lambda: pool.candidates() == ())
                assert scraper.stats.failures.total() >= 3
                async with running(engine, port):
                    await until(lambda: pool.candidates() != ())
                    await until(lambda: scraper.stats.models == 2)
    assert [entry["event"] for entry in logs] == ["scrape.failed", "scrape.recovered"]


async def test_endpoints_that_come_and_go_are_followed(engine: Engine) -> None:
    pool = Pool()
    async with running(Engine()) as other, scraping(make(pool)):
        pool.replace([endpoint(engine)])
        await until(lambda: engine.asked["/metrics"] > 2)
        pool.replace([endpoint(other)])
        await until(lambda: other.asked["/metrics"] > 2)
        asked = engine.asked["/metrics"]
        await until(lambda: other.asked["/metrics"] > 10)
        assert engine.asked["/metrics"] == asked


async def test_another_endpoint_on_the_same_address_is_scraped_once_per_turn(
    engine: Engine,
) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        pool.replace([Endpoint(name="other", address=engine.address)])
        await until(lambda: pool.snapshot()[0].metrics is not None)
        await until(lambda: scraper.stats.models == 2)
        assert engine.most_at_once == 1


async def test_models_are_asked_for_again_after_their_interval(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool, models_interval_s=0.01)):
        await until(lambda: engine.asked["/v1/models"] > 2)


async def test_models_are_asked_for_again_after_a_restart(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        engine.models = engine.models.replace("tiny", "huge")
        engine.metrics = engine.metrics.replace(" 100\n", " 200\n")
        await until(lambda: pool.resolve_model("org/huge").main == "huge")


async def test_an_engine_without_metrics_is_still_asked_what_it_serves(engine: Engine) -> None:
    engine.status = 404
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await until(lambda: scraper.stats.models_failures["status"] > 0)
        engine.status = 200
        await until(lambda: scraper.stats.models > 0)


@pytest.mark.parametrize("body", ["<html>", '{"data": [{"x": ' + "[" * 100_000])
async def test_a_list_of_models_that_is_none_changes_nothing(engine: Engine, body: str) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool, models_interval_s=0.01)) as scraper:
        await scraper.first_pass.wait()
        engine.models = body
        await until(lambda: scraper.stats.models_failures["malformed"] > 1)
        assert pool.resolve_model("org/tiny").main == "tiny"


async def test_the_engine_label_chooses_the_names_that_are_read(engine: Engine) -> None:
    engine.metrics = "sglang:num_queue_reqs 9\nvllm:num_requests_waiting 1\n"
    pool = Pool([endpoint(engine, **{"llm-d.ai/engine-type": "sglang"})])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        assert waiting(pool) == 9


async def test_missing_figures_and_unreadable_lines_are_counted(engine: Engine) -> None:
    engine.metrics = "vllm:num_requests_waiting NaN\n"
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
    assert scraper.stats.incomplete == scraper.stats.scrapes > 0
    assert scraper.stats.ignored_lines == scraper.stats.scrapes


@pytest.mark.parametrize("body", ["", "<html><body>busy</body></html>", "\x00\x01"])
async def test_a_page_that_is_no_metrics_page_is_a_counted_miss(engine: Engine, body: str) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        engine.metrics = body
        await until(lambda: scraper.stats.failures["no-metrics"] > 0)
        # What was known stays, with its age.
        assert waiting(pool) == 3
        await until(lambda: pool.candidates() == ())
        engine.metrics = METRICS
        await until(lambda: pool.candidates() != ())


async def test_a_page_of_30_megabytes_is_a_counted_miss(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
        engine.metrics = METRICS + "# filler\n" * (30 * 1024 * 1024 // 9)
        await until(lambda: scraper.stats.failures["too-large"] > 0)
        assert waiting(pool) == 3


async def test_without_a_metrics_page_only_the_models_are_read(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    models = Page(ModelsSourceParameters(interval="50ms"))
    async with scraping(Scraper(pool, metrics=None, models=models)):
        await until(lambda: engine.asked["/v1/models"] > 2)
    assert engine.asked.keys() == {"/v1/models"}
    assert pool.snapshot()[0].metrics is None


async def test_further_figures_become_attributes_and_go_with_their_series(engine: Engine) -> None:
    engine.metrics += 'load{gpu="0"} 2\nload{gpu="1"} 4\n'
    config = EngineConfig(
        name="vllm", custom_metrics=(CustomMetric(attribute_key="Load", metric_spec="load"),)
    )
    dialects = CoreMetricsParameters(engine_configs=(config,)).dialects()
    pool = Pool([endpoint(engine)])
    async with scraping(Scraper(pool, dialects=dialects, interval_s=0.02)):
        await until(lambda: pool.snapshot()[0].attributes == {"Load": 3.0})
        assert waiting(pool) == 3
        engine.metrics = METRICS
        await until(lambda: pool.snapshot()[0].attributes == {})


async def test_metrics_may_have_a_port_and_a_path_of_their_own(engine: Engine) -> None:
    async with running(Engine()) as metrics:
        port = int(metrics.address.rpartition(":")[2])
        page = Page(MetricsSourceParameters(path="/prometheus/metrics", port=port))
        scraper = Scraper(Pool([endpoint(engine)]), metrics=page)
        async with scraping(scraper):
            await scraper.first_pass.wait()
        assert metrics.asked.keys() == {"/prometheus/metrics"}
        assert engine.asked.keys() == {"/v1/models"}


async def test_an_error_of_our_own_is_counted_and_the_scraping_goes_on(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    with capture_logs() as logs, patch.object(exposition, "read", side_effect=ValueError("odd")):
        async with scraping(make(pool)) as scraper:
            await until(lambda: scraper.stats.failures["internal"] > 1)
    assert logs[0]["event"] == "scrape.internal_error"


async def test_a_scraper_that_was_stopped_follows_the_pool_no_more(engine: Engine) -> None:
    pool = Pool([endpoint(engine)])
    async with scraping(make(pool)) as scraper:
        await scraper.first_pass.wait()
    pool.replace([])
    pool.replace([endpoint(engine)])
    assert engine.at_once == 0


@pytest.mark.parametrize(
    ("metrics", "engine", "incomplete"),
    [
        (EngineMetrics(waiting=0, running=0, kv_usage=0.0), "vllm", False),
        (EngineMetrics(running=0, kv_usage=0.0), "vllm", True),
        (EngineMetrics(waiting=0, kv_usage=0.0), "vllm", True),
        (EngineMetrics(waiting=0, running=0), "vllm", True),
        (EngineMetrics(waiting=0, running=0), "triton", False),
    ],
    ids=["all there", "no queue", "no running", "no usage", "an engine that has no usage"],
)
def test_a_page_is_incomplete_without_the_figures_of_load(
    metrics: EngineMetrics, engine: str, incomplete: bool
) -> None:
    assert is_incomplete(metrics, DIALECTS[engine]) is incomplete
