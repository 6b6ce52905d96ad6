"""A gateway whose streams end before its answers do works, and the router says what is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from router.extproc.stats import EARLY_S, WATCHED
from tests.end_to_end.test_bytes import JSON, chat_body, echo_fleet
from tests.support.processes import until


def without_response_trailers(bootstrap: Any) -> None:
    """As gateways are configured that know nothing of answers which take long."""
    (listener,) = bootstrap["staticResources"]["listeners"]
    manager = listener["filterChains"][0]["filters"][0]["typedConfig"]
    (processor,) = (f for f in manager["httpFilters"] if f["name"] == "ext_proc")
    processor["typedConfig"]["processingMode"]["responseTrailerMode"] = "SKIP"


@pytest.mark.parametrize("asked", [False, True], ids=["as-we-write-it", "without-trailers"])
async def test_streams_that_end_with_the_headers_are_noticed(tmp_path: Path, asked: bool) -> None:
    async with echo_fleet(
        tmp_path,
        full_duplex=True,
        router_flags=("--usage-sample=0",),
        edit=without_response_trailers if asked else None,
    ) as (fleet, engine):
        for _ in range(WATCHED):
            async with fleet.session.post(
                f"{fleet.url}/v1/chat/completions",
                data=chat_body(400),
                headers={**JSON, "x-test": "stream"},
            ) as response:
                engine.chunks.put_nowait(b"data: 1\n\n")
                await response.content.readany()
                if asked:
                    # The answer is still open, and the router believes that it is over.

                    async def forgotten() -> bool:
                        return await fleet.metric("warmroute_inflight_requests") == 0

                    await until(forgotten)
                else:
                    # As long as an engine needs for a token or two.
                    await asyncio.sleep(4 * EARLY_S)
                engine.chunks.put_nowait(None)
                await response.read()
        degraded = (await fleet.get("/readyz"))["degraded"]
        assert bool([text for text in degraded if "response_trailer_mode" in text]) is asked
        early = await fleet.metric("warmroute_streams_ended_early_total")
        assert (early > WATCHED / 2) is asked
