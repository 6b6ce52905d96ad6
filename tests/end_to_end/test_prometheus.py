"""A real Prometheus scrapes a router that routes, and answers what the dashboard asks."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.conftest import running_fleet
from tests.support.ports import free_port
from tests.support.processes import Fleet, process, until
from tests.support.queries import ALERTS, SCRAPES, alerts, all_metrics, metrics, panel_queries

PROMPT = (
    "A prompt of several blocks that is sent again and again, so that some of it is cached. " * 4
)

UNSEEN = {
    "llm_d_epp_request_error_total",
    "warmroute_findings",
    "warmroute_inflight_requests",
    "warmroute_untokenized_requests_total",
}
"""Metrics without a series as long as nothing is wrong or on its way."""


async def ask(fleet: Fleet) -> None:
    body = {
        "model": "tiny",
        "prompt": PROMPT,
        "max_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as response:
        assert response.status == 200
        await response.read()


async def exposed(fleet: Fleet) -> set[str]:
    """Names of all series, by a strict parser."""
    async with fleet.session.get(f"{fleet.http}/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    return {sample.name for family in families for sample in family.samples}


class Prometheus:
    """Its HTTP API."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}/api/v1"

    async def get(self, path: str, **query: str) -> Any:
        """What it answers; None while it does not."""
        try:
            async with self._session.get(f"{self._url}/{path}", params=query) as response:
                answer = await response.json()
        except aiohttp.ClientError:
            return None
        assert answer["status"] == "success", answer
        return answer["data"]

    async def scraped(self) -> bool:
        """Its only target is up, and was more than once."""
        data = await self.get(
            "query", query='count_over_time(up{job="warmroute"}[1m]) >= 3 and up == 1'
        )
        return bool(data and data["result"])


@asynccontextmanager
async def prometheus(fleet: Fleet) -> AsyncIterator[Prometheus]:
    """One with the configuration that is shipped, but for ports and intervals."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("prometheus is not installed")
    config = yaml.safe_load(SCRAPES.read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(ALERTS)]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [
        fleet.http.removeprefix("http://")
    ]
    path, port = fleet.folder / "prometheus.yaml", free_port()
    path.write_text(yaml.safe_dump(config))
    command = [
        binary, f"--config.file={path}", f"--storage.tsdb.path={fleet.folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    async with process(command, fleet.folder / "prometheus.log"):
        yield Prometheus(fleet.session, port)


async def test_everything_that_is_asked_for_is_exposed(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=1) as fleet:
        for _ in range(2):
            await ask(fleet)

        async def missing() -> set[str]:
            return all_metrics() - UNSEEN - await exposed(fleet)

        # What engines say comes with the next scrape of them.
        await until(lambda: _is_empty(missing))
        assert await missing() == set()


async def _is_empty(names: Callable[[], Awaitable[set[str]]]) -> bool:
    return not await names()


async def test_a_real_prometheus_scrapes_the_router_and_fills_each_panel(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=2) as fleet, prometheus(fleet) as store:
        await until(store.scraped, 30)
        for title, query in panel_queries():
            assert await store.get("query", query=query) is not None, title
            if UNSEEN.isdisjoint(metrics(query)):
                await until(partial(_filled, fleet, store, query), 30)
        groups = (await store.get("rules"))["groups"]
        rules = {rule["name"]: rule for rule in groups[0]["rules"]}
        assert set(rules) == {rule["alert"] for rule in alerts()}
        assert {rule["health"] for rule in rules.values()} == {"ok"}
        assert [name for name, rule in rules.items() if rule["state"] == "firing"] == []


async def _filled(fleet: Fleet, store: Prometheus, query: str) -> bool:
    """It has an answer, as long as there are requests."""
    await ask(fleet)
    data = await store.get("query", query=query)
    return bool(data and data["result"])
