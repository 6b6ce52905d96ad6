"""Spans of a request that passed real Envoy, as a collector gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.conftest import running_fleet
from tests.support.collector import collector
from tests.support.processes import until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def test_a_request_that_belongs_to_a_trace_shows_its_stages_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", kept.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with running_fleet(tmp_path, engines=1, router_flags=("--tracing",)) as fleet:
            body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            url = f"{fleet.url}/v1/chat/completions"
            async with fleet.session.post(url, json=body, headers=headers) as response:
                assert response.status == 200
            await until(lambda: "gateway.request" in kept.of_trace(TRACE))
            spans = kept.of_trace(TRACE)
    assert spans["gateway.request"].parent_span_id == bytes.fromhex(PARENT)
    stages = {"parse", "token-producer", "precise-prefix-cache-producer", "wait", "schedule"}
    assert stages | {"decide", "response"} <= set(spans)
    told = {a.key: a.value for a in spans["gateway.request"].attributes}
    assert told["warmroute.endpoint"].string_value == fleet.engines[0]
    assert told["warmroute.reported_cached_tokens"].int_value == 0
