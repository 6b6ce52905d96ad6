from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from router.errors import BadRequest
from router.telemetry.decisions import Decisions, Record
from router.telemetry.http import Findings, Match, Pages, application
from router.telemetry.metrics import Metrics
from router.telemetry.page.document import document
from tests.router.telemetry.page.test_overview import Shop


async def echo(body: bytes) -> Mapping[str, Any]:
    if not body:
        raise BadRequest("nothing asked")
    return {"asked": body.decode()}


@asynccontextmanager
async def pages(
    match: Match | None = echo,
    *,
    ready: bool = True,
    open_debug: bool = False,
    doctor: Findings = lambda _: {"findings": []},
    metrics: Metrics | None = None,
) -> AsyncIterator[Any]:
    decisions = Decisions()
    for name in ("a/b c", "second"):
        decisions.add(Record(request_id=name, at=1.0, kind="chat", model="m"))
    app = application(
        Pages(
            metrics=metrics or Metrics(lambda _: True),
            decisions=decisions,
            ready=lambda: ready,
            degraded=lambda: ["something"],
            state=lambda: {"endpoints": []},
            overviews=Shop().overviews,
            match=lambda: match,
            max_body_bytes=1000,
            open_debug=open_debug,
            doctor=doctor,
        )
    )
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield client


async def test_health_is_liveness() -> None:
    async with pages(ready=False) as client:
        assert (await client.get("/healthz")).status == 200


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
async def test_readiness_lists_what_is_degraded(ready: bool, status: int) -> None:
    async with pages(ready=ready) as client:
        response = await client.get("/readyz")
        assert response.status == status
        assert await response.json() == {"ready": ready, "degraded": ["something"]}


async def test_metrics_are_in_the_text_form() -> None:
    async with pages() as client:
        response = await client.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain; version=")
        assert "# TYPE llm_d_epp_scheduler_e2e_duration_seconds histogram" in await response.text()


class SlowToRead(Metrics):
    """Its page is not read to the end before somebody allows it."""

    def __init__(self) -> None:
        super().__init__(lambda _: True)
        self.allowed = threading.Event()
        self.was_allowed = False

    @property
    def published(self) -> SlowToRead:
        return self

    def collect(self) -> Iterator[Any]:
        self.was_allowed = self.allowed.wait(5)
        return iter(())


async def test_nobody_waits_for_a_large_page_of_metrics() -> None:
    metrics = SlowToRead()
    async with pages(metrics=metrics) as client:
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(client.get("/metrics")) for _ in range(3)]
            await asyncio.sleep(0)
            assert (await client.get("/healthz")).status == 200
            metrics.allowed.set()
        assert [each.result().status for each in reading] == [200] * 3
    assert metrics.was_allowed


async def test_a_match_is_answered_or_refused_with_a_reason() -> None:
    async with pages() as client:
        assert await (await client.post("/debug/match", data=b"x")).json() == {"asked": "x"}
        refused = await client.post("/debug/match")
        assert refused.status == 400
        assert (await refused.json())["error"]["message"] == "nothing asked"


async def test_there_is_no_match_without_a_precise_producer() -> None:
    async with pages(match=None) as client:
        response = await client.post("/debug/match", data=b"{}")
        assert response.status == 404
        assert "precise-prefix-cache-producer" in (await response.json())["error"]["message"]


async def test_decisions_are_listed_and_found_by_id() -> None:
    async with pages() as client:
        listed = (await (await client.get("/debug/decisions?limit=1")).json())["decisions"]
        assert [entry["request_id"] for entry in listed] == ["second"]
        for limit in ("x", "-1", "", "1000000"):
            refused = await client.get(f"/debug/decisions?limit={limit}")
            assert refused.status == 400
            assert "a number up to 999999" in (await refused.json())["error"]["message"]
        found = await client.get("/debug/decisions/a%2Fb%20c")
        assert (await found.json())["request_id"] == "a/b c"
        assert (await client.get("/debug/decisions/none")).status == 404


async def test_the_state_is_shown() -> None:
    async with pages() as client:
        assert await (await client.get("/debug/state")).json() == {"endpoints": []}


@pytest.mark.parametrize(("open_debug", "status"), [(False, 403), (True, 200)])
async def test_debug_pages_are_closed_to_names_from_elsewhere_unless_opened(
    open_debug: bool, status: int
) -> None:
    async with pages(open_debug=open_debug) as client:
        answer = await client.get("/debug/state", headers={"host": "elsewhere.example"})
        assert answer.status == status
        assert (await client.get("/healthz", headers={"host": "elsewhere.example"})).status == 200


async def test_the_live_page_is_at_the_root_with_its_policy() -> None:
    async with pages() as client:
        response = await client.get("/")
        assert (response.status, await response.read()) == (200, document().body)
        policy = response.headers["content-security-policy"]
        assert policy == document().headers["content-security-policy"]


async def test_the_page_is_fed_by_events() -> None:
    async with pages() as client, client.get("/debug/events") as response:
        assert await response.content.readline() == b"event: history\n"
        assert (await client.head("/debug/events")).status == 405


async def test_findings_are_told_and_may_be_asked_for_sooner() -> None:
    def told(silence_s: float | None) -> Mapping[str, Any]:
        return {"findings": [], "silence": silence_s}

    async with pages(doctor=told) as client:
        assert (await (await client.get("/debug/doctor")).json())["silence"] is None
        assert (await (await client.get("/debug/doctor?silence=500ms")).json())["silence"] == 0.5
        refused = await client.get("/debug/doctor?silence=long")
        assert refused.status == 400
        assert "duration" in (await refused.json())["error"]["message"]
