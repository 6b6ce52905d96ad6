"""What a router that routes tells on its metrics page under llm-d's names."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import running_fleet
from tests.end_to_end.test_bytes import JSON, chat_body, echo_fleet
from tests.support.processes import Fleet, until

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: token-producer, parameters: {sidecar: {}}}
  - {type: precise-prefix-cache-producer}
  - {type: mm-embeddings-cache-producer}
  - {type: inflight-load-producer}
  - {type: endpoint-notification-source}
  - {type: prefix-cache-scorer}
dataLayer:
  sources:
    - pluginRef: endpoint-notification-source
      extractors: [{pluginRef: precise-prefix-cache-producer}]
schedulingProfiles:
  - name: default
    plugins: [{pluginRef: prefix-cache-scorer}]
"""

TEXT = "A prompt of several blocks that is sent again and again, so that some of it is cached. " * 4
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
TENANT = {"x-llm-d-inference-fairness-id": "tenant"}
EPP = "llm_d_epp"


async def completed(fleet: Fleet) -> None:
    body = {"model": "tiny", "prompt": TEXT, "max_tokens": 2}
    url = f"{fleet.url}/v1/completions"
    async with fleet.session.post(url, json=body, headers=TENANT) as response:
        assert response.status == 200
        await response.read()


async def shown(fleet: Fleet) -> None:
    """A chat with a picture."""
    said = [{"role": "user", "content": [{"type": "text", "text": "?"}, PICTURE]}]
    body = {"model": "tiny", "messages": said, "max_tokens": 2}
    async with fleet.session.post(f"{fleet.url}/v1/chat/completions", json=body) as response:
        assert response.status == 200
        await response.read()


async def test_a_scrape_tells_of_work_blocks_and_streams(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    flags = (f"--config-file={config}", "--enable-grpc-stream-metrics", "--legacy-metric-names")
    async with running_fleet(tmp_path, engines=1, router_flags=flags) as fleet:

        async def stored() -> bool:
            return await fleet.metric(f"{EPP}_kv_cache_index_admissions_total") > 0

        await completed(fleet)
        await until(stored)
        await completed(fleet)
        await _tells_of_work(fleet)
        await _tells_of_the_index(fleet)
        assert await fleet.metric(f"{EPP}_datalayer_extract_errors_total") == 0


async def test_a_scrape_tells_of_media_and_of_who_has_what_in_flight(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    flags = (f"--config-file={config}",)
    async with echo_fleet(tmp_path, full_duplex=False, router_flags=flags) as (fleet, engine):
        for _ in range(2):
            await shown(fleet)
        lookups = f"{EPP}_encoder_cache"
        assert await fleet.metric(f"{lookups}_queries_total", modality="image") == 2
        pod = "default/e1"
        assert await fleet.metric(f"{lookups}_hits_total", modality="image", pod=pod) == 1
        assert await fleet.metric(f"{lookups}_hit_ratio_count") == 2
        assert await fleet.metric(f"{EPP}_extproc_streams_total") == 0
        url, told = f"{fleet.url}/v1/chat/completions", {**JSON, **TENANT, "x-test": "stream"}
        engine.chunks.put_nowait(b"data: 1\n\n")
        async with fleet.session.post(url, data=chat_body(400), headers=told) as stream:
            assert await stream.content.readline()
            requests = f"{EPP}_inflight_requests"
            assert await fleet.metric(requests, fairness_id="tenant", priority="0") == 1
            assert await fleet.metric(requests) == 1
            engine.chunks.put_nowait(None)
            await stream.read()

        async def at_zero() -> bool:
            async with fleet.session.get(f"{fleet.http}/metrics") as page:
                series = [
                    line.rpartition(" ")[2]
                    for line in (await page.text()).splitlines()
                    if line.startswith(requests) and 'fairness_id="tenant"' in line
                ]
                return series == ["0.0"]

        await until(at_zero)


async def _tells_of_work(fleet: Fleet) -> None:
    for name in ("request", "response"):
        spent = f"{EPP}_{name}_processing_duration_seconds"
        assert await fleet.metric(f"{spent}_count") >= 2
        assert 0 < await fleet.metric(f"{spent}_sum") < 5

    async def ended() -> bool:
        return await fleet.metric(f"{EPP}_inflight_requests") == 0

    await until(ended)
    streams = f"{EPP}_extproc_streams_total"
    assert (
        await fleet.metric(streams, code="OK") + await fleet.metric(streams, code="Canceled") >= 2
    )
    assert await fleet.metric(f"{EPP}_extproc_stream_duration_seconds_count") == (
        await fleet.metric(streams)
    )


async def _tells_of_the_index(fleet: Fleet) -> None:
    assert await fleet.metric(f"{EPP}_prefix_indexer_hit_bytes_sum") > 0
    assert await fleet.metric("inference_extension_prefix_indexer_hit_bytes_sum") > 0
    admitted = await fleet.metric(f"{EPP}_kv_cache_index_admissions_total")
    assert await fleet.metric("kvcache_index_admissions_total") == admitted
    assert await fleet.metric(f"{EPP}_kv_cache_index_evictions_total") == 0
    assert await fleet.metric(f"{EPP}_kv_cache_events_pool_queue_depth") == 0
    assert await fleet.metric(f"{EPP}_kv_cache_events_pool_capacity") > 0
