"""/metrics and probes over HTTP."""

from __future__ import annotations

import socket

import aiohttp
import pytest

from tests.support.ports import free_port
from tokenizer_sidecar.metrics import Sources
from tokenizer_sidecar.metrics_http import serving_metrics
from tokenizer_sidecar.stats import Stats


async def test_metrics_are_served_and_follow_the_counters() -> None:
    stats, port = Stats(), free_port()
    serving = serving_metrics(Sources(stats), "127.0.0.1", port)
    async with serving, aiohttp.ClientSession() as session:
        stats.requests["OK"] += 3
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            assert response.status == 200
            assert response.content_type == "text/plain"
            assert 'warmroute_tokenizer_requests_total{outcome="ok"} 3' in await response.text()


@pytest.mark.parametrize(("message", "status"), [("", 200), ("still loading", 503)])
async def test_readiness_is_that_of_every_model(message: str, status: int) -> None:
    port = free_port()
    sources = Sources(Stats(), missing=lambda: {"one": "", "two": message})
    async with serving_metrics(sources, "127.0.0.1", port), aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as response:
            assert response.status == status
            told = (await response.json())["models"]
            assert told["one"] == {"ready": True, "message": ""}
            assert told["two"] == {"ready": not message, "message": message}
        async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
            assert response.status == 200


async def test_the_port_is_free_afterwards() -> None:
    port = free_port()
    for _ in range(2):
        async with serving_metrics(Sources(Stats()), "127.0.0.1", port):
            pass


async def test_a_taken_port_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        with pytest.raises(OSError, match="address already in use"):
            async with serving_metrics(Sources(Stats()), "127.0.0.1", taken.getsockname()[1]):
                pass
