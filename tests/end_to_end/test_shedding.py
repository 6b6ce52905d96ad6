"""What may wait is turned away while nothing tells of room, through real Envoy; the rest is not."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import msgspec

from tests.support.echo_engine import echo_engine
from tests.support.ports import free_port, loopback_block
from tests.support.processes import Fleet, router_and_envoy, until

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: queue-scorer
  - type: metrics-data-source
    parameters:
      port: PORT
  - type: core-metrics-extractor
dataLayer:
  sources:
    - pluginRef: metrics-data-source
      extractors:
        - pluginRef: core-metrics-extractor
"""
BODY = {"model": "tiny", "prompt": "hello"}


async def test_only_sheddable_requests_see_a_pool_without_metrics(tmp_path: Path) -> None:
    host = loopback_block()
    config, endpoints = tmp_path / "epp.yaml", tmp_path / "endpoints.json"
    config.write_text(CONFIG.replace("PORT", str(free_port(host))))
    listed = {
        "endpoints": [{"name": "e1", "address": host, "port": 8000}],
        "objectives": {"batch": -1, "chat": 5},
    }
    endpoints.write_bytes(msgspec.json.encode(listed))
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(echo_engine(host))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        fleet = Fleet(tmp_path, session)
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, f"--config-file={config}")
        )
        await until(fleet.answers)
        for objective, status in (("batch", 429), ("chat", 200), ("unknown", 200), ("", 200)):
            headers = {"x-llm-d-inference-objective": objective} if objective else {}
            url = f"{fleet.url}/v1/completions"
            async with session.post(url, json=BODY, headers=headers) as response:
                assert response.status == status, objective
                reason = response.headers.get("x-llm-d-request-dropped-reason")
                assert reason == ("rejected-saturated" if status == 429 else None)
        sent = [request for request in engine.requests if request.path == "/v1/completions"]
        assert len(sent) == 3
        assert all("x-llm-d-inference-objective" not in request.headers for request in sent)
        failed = await fleet.metric(
            "llm_d_epp_datalayer_poll_errors_total", source_type="metrics-data-source"
        )
        assert failed > 0
