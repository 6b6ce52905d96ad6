from __future__ import annotations

import asyncio
import gzip
import io
import socket
import subprocess
import sys
from typing import Any

import aiohttp
import msgspec
import pytest
import uvloop
import zmq
import zmq.asyncio

from simulator.config import EngineConfig
from simulator.http import MAX_BODY_BYTES, serve
from simulator.wire import encode_seq
from tests.simulator.recordings import frames
from tests.simulator.serving import TIMEOUT_S, Client, cached, served
from tests.support.ports import free_port


async def announced(client: Client, rank: int = 0) -> list[Any]:
    """All batches of a rank so far, by a replay."""
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.connect(f"tcp://127.0.0.1:{client.bound.replays[rank]}")
        await dealer.send_multipart([b"", encode_seq(0)])
        batches = []
        async with asyncio.timeout(TIMEOUT_S):
            while (reply := await dealer.recv_multipart())[-1]:
                batches.append(msgspec.msgpack.decode(reply[-1]))
    return batches


async def test_a_request_gives_rise_to_the_recorded_message() -> None:
    # The second recorded request is the first with a full block.
    recorded = dict(frames("bs16_sha256_full"))["002-A-10.5-blocks"][2]
    seconds, events, rank = msgspec.msgpack.decode(recorded)
    prompt = events[0]["token_ids"] + [7] * 8
    async with served(num_blocks=129, max_model_len=1024) as client:
        await client.complete(prompt, max_tokens=4)
        ((ours_seconds, ours, ours_rank),) = await announced(client)
    assert (ours, ours_rank) == (events, rank)
    assert [list(event) for event in ours] == [list(event) for event in events]
    assert type(ours_seconds) is type(seconds)


async def test_live_events_arrive_before_the_answer_is_needed() -> None:
    async with served() as client:
        with zmq.asyncio.Context() as context, context.socket(zmq.SUB) as reader:
            reader.setsockopt(zmq.LINGER, 0)
            reader.connect(f"tcp://127.0.0.1:{client.bound.events[0]}")
            reader.subscribe(f"kv@127.0.0.1:{client.bound.http}@tiny")
            # Until a first message arrives, the subscription may not have reached the engine.
            warm_up = 0
            while not await reader.poll(20):
                warm_up += 1
                await client.complete([warm_up] * 16, max_tokens=1)
            async with asyncio.timeout(TIMEOUT_S):
                await client.complete([9] * 20, max_tokens=1)
                stored: list[int] = []
                while stored != [9] * 16:
                    _, _, payload = await reader.recv_multipart()
                    stored = msgspec.msgpack.decode(payload)[1][-1]["token_ids"]


async def test_sessions_salts_and_adapters_show_in_events() -> None:
    async with served(adapters=("sql",)) as client:
        body = {"model": "sql", "prompt": [5] * 32, "cache_salt": "salt", "max_tokens": 1}
        await client.ok("/v1/completions", body, X_Session_ID="session")
        ((_, (event,), _),) = await announced(client)
    assert event["extra_keys"] == [["sql", "salt"], ["sql"]]
    assert (event["lora_id"], event["lora_name"]) == (1, "sql")
    assert event["session_id"] == "session"


async def test_each_rank_announces_on_its_own_port_under_its_number() -> None:
    async with served(ranks=2) as client:
        for rank in ("0", "1"):
            body = {"prompt": [5] * 20, "max_tokens": 1}
            await client.ok("/v1/completions", body, X_data_parallel_rank=rank)
        batches = [await announced(client, rank) for rank in (0, 1)]
    assert [[batch[2] for batch in rank] for rank in batches] == [[0], [1]]


async def test_a_reset_is_announced_with_the_next_request() -> None:
    async with served() as client:
        await client.complete([5] * 20, max_tokens=1)
        await client.ok("/reset_prefix_cache", {})
        assert len(await announced(client)) == 1
        await client.complete([6] * 20, max_tokens=1)
        *_, (_, events, _) = await announced(client)
    assert [event["type"] for event in events] == ["AllBlocksCleared", "BlockStored"]


async def test_events_can_be_written_as_older_engines_do() -> None:
    async with served(event_layout="array", hash_form="bytes") as client:
        await client.complete([5] * 20, max_tokens=1)
        ((_, (event,), _),) = await announced(client)
    assert (event[0], len(event), len(event[1][0])) == ("BlockStored", 7, 32)


async def test_the_topic_can_be_set() -> None:
    async with served(topic="mine") as client:
        _, sources = await client.get("/kv_event_sources")
    assert sources["0"]["topic"] == "mine"


async def test_late_events_do_not_delay_answers() -> None:
    async with served(event_delay_s=60.0) as client:
        await client.complete([5] * 20, max_tokens=1)
        assert await announced(client) == []


async def test_an_engine_started_anew_has_an_empty_cache_and_counts_from_0() -> None:
    config = {"port": free_port(), "replay_port": free_port(), "kv_events_port": free_port()}
    for _ in range(2):
        async with served(**config) as client:
            assert cached(await client.complete([5] * 20, max_tokens=1)) == 0
            assert len(await announced(client)) == 1


async def test_serving_says_when_it_is_ready_and_stops_when_told() -> None:
    stop, ready = asyncio.Event(), asyncio.Event()
    port = free_port()
    config = EngineConfig(port=port, kv_events_port=0, replay_port=0)
    async with asyncio.timeout(TIMEOUT_S):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(serve(config, ready.set, stop))
            await ready.wait()
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            stop.set()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("field", ["port", "kv_events_port", "replay_port"])
async def test_a_port_in_use_is_refused_in_one_line(field: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"port": 0, "kv_events_port": 0, "replay_port": 0, field: port}
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use") as refused:
            await serve(EngineConfig(**ports), lambda: None, asyncio.Event())
    assert "\n" not in str(refused.value)


async def test_a_taken_event_port_leaves_the_http_port_free() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = EngineConfig(port=port, kv_events_port=taken.getsockname()[1])
        with pytest.raises(OSError, match="cannot bind"):
            await serve(config, lambda: None, asyncio.Event())
    socket.create_server(("127.0.0.1", port)).close()


async def test_large_bodies_are_taken() -> None:
    assert MAX_BODY_BYTES >= 64 * 2**20
    body = b'{"prompt": "a", "max_tokens": 1, "padding": "%s"}' % (b"x" * (70 * 2**20))
    async with served() as client:
        answer = await client.ok("/v1/completions", io.BytesIO(body))
    assert answer["usage"]["prompt_tokens"] == 1


async def test_answers_look_like_those_of_the_real_server() -> None:
    async with served() as client, client.http.get("/health") as response:
        assert response.headers["Server"] == "uvicorn"


async def test_an_error_of_ours_is_a_500_that_is_counted_and_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("simulator.prepare.Preparer.prompts", broken)
    async with served() as client:
        status, answer = await client.post("/v1/completions", {"prompt": "a"})
        _, text = await client.get("/metrics")
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")
    assert "broken on purpose" not in answer["error"]["message"]
    assert 'finished_reason="error",model_name="tiny"} 1.0' in text
    assert [record.message for record in caplog.records] == ["request.failed"]


async def test_an_error_of_ours_in_a_stream_cuts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr("simulator.responses.closing_usage", broken)
    body = {"prompt": "a", "stream": True, "stream_options": {"include_usage": True}}
    async with served() as client:
        async with client.http.post("/v1/completions", json=body) as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        await client.until_metric("num_requests_running", 0)


def test_the_engine_runs_under_uvloop() -> None:
    async def ask() -> int:
        async with served() as client:
            await client.complete([5] * 20, max_tokens=1)
            assert len(await announced(client)) == 1
            return cached(await client.complete([5] * 20))

    assert uvloop.run(ask()) == 16


def test_importing_it_is_cheap() -> None:
    code = "import sys, simulator.http; print('transformers' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


async def test_a_request_may_be_named_by_any_bytes() -> None:
    body = b'{"prompt": "x", "max_tokens": 1}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    more = b"x-request-id: \xff\xe9\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    async with served() as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.bound.http)
        writer.write(head + more % len(body) + body)
        async with asyncio.timeout(TIMEOUT_S):
            answer = await reader.read()
        writer.close()
    assert msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])["id"] == "cmpl-\xff\xe9"


@pytest.mark.parametrize("coding", ["gzip", "zstd", "compress"])
async def test_no_body_is_unpacked(coding: str) -> None:
    async with served() as client:
        body = b'{"prompt": "x", "max_tokens": 1}'
        status, _ = await client.post("/v1/completions", io.BytesIO(body), content_encoding=coding)
        assert status == 200
        packed = io.BytesIO(gzip.compress(body))
        status, _ = await client.post("/v1/completions", packed, content_encoding="gzip")
        assert status == 400
