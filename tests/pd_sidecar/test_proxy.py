from __future__ import annotations

import asyncio
import gzip
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from yarl import URL

from tests.pd_sidecar.fakes import (
    DECODED,
    PREFILLED,
    TIMEOUT_S,
    FakeEngine,
    hangs,
    says,
    setup,
    streams,
    usage,
)
from tests.support.ports import free_port
from tests.support.processes import until

BODY = {"prompt": "x"}


def pair(**config: Any) -> Any:
    return setup(FakeEngine(PREFILLED), FakeEngine(DECODED), **config)


async def test_without_the_header_the_request_passes_unchanged() -> None:
    raw = b'{ "prompt" : "x" }'
    async with pair() as fake:
        response, body = await fake.ask(raw, "/v1/completions?a=b%20c", at="", **{"x-mine": "1"})
    (seen,) = fake.decode.seen
    assert (seen.method, seen.target, seen.raw) == ("POST", "/v1/completions?a=b%20c", raw)
    assert seen.headers["x-mine"] == "1"
    assert seen.headers["content-type"] == "application/json"
    assert msgspec.json.decode(body)["usage"] == usage(20)
    assert "x-warmroute-prefill" not in response.headers
    assert fake.prefill.seen == []


@pytest.mark.parametrize(
    ("method", "path", "data"),
    [
        ("GET", "/v1/models", None),
        ("GET", "/metrics", None),
        ("POST", "/tokenize", b'{"prompt": "x"}'),
        ("DELETE", "/v1/completions", None),
    ],
)
async def test_other_requests_pass_whatever_headers_they_have(
    method: str, path: str, data: bytes | None
) -> None:
    async with pair() as fake:
        headers = {"x-prefiller-host-port": fake.prefill.address}
        async with fake.session.request(
            method, fake.url + path, data=data, headers=headers
        ) as response:
            assert response.status == 200
    (seen,) = fake.decode.seen
    assert (seen.method, seen.target, seen.raw) == (method, path, data or b"")
    assert fake.prefill.seen == []


async def test_of_a_whole_url_only_path_and_query_count() -> None:
    async with pair() as fake:
        url = URL(fake.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = (
            "GET http://10.0.0.1:22/v1/models?a=b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode())
        async with asyncio.timeout(TIMEOUT_S):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [seen.target for seen in fake.decode.seen] == ["/v1/models?a=b"]


async def test_routing_and_connection_headers_reach_no_engine() -> None:
    given = {
        "x-encoder-hosts-ports": "10.0.0.1:8000",
        "x-data-parallel-host-port": "10.0.0.1:8000",
        "connection": "close, x-private",
        "x-private": "1",
        "te": "trailers",
    }
    async with pair() as fake:
        await fake.ask(BODY, **given)
        await fake.ask(BODY, at="", **given)
    for seen in (*fake.prefill.seen, *fake.decode.seen):
        assert not {*given, "x-prefiller-host-port"} & (seen.headers.keys() - {"connection"})
        assert "x-private" not in seen.headers


async def test_engines_cannot_say_what_became_of_a_prefill() -> None:
    lies = says({}, headers={"x-warmroute-prefill": "failed", "x-mine": "1"})
    async with setup(FakeEngine(PREFILLED), FakeEngine(lies)) as fake:
        response, _ = await fake.ask(BODY, at="")
    assert "x-warmroute-prefill" not in response.headers
    assert response.headers["x-mine"] == "1"


async def test_a_request_without_an_id_gets_one_that_both_engines_know() -> None:
    async with pair() as fake:
        await fake.ask(BODY)
        await fake.ask(BODY)
    ids = [seen.headers["x-request-id"] for seen in fake.prefill.seen]
    assert ids == [seen.headers["x-request-id"] for seen in fake.decode.seen]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("named", ["10.0.0.1:8000", "127.0.0.1:1", "nonsense", "::1:8000", "h:0"])
async def test_an_engine_that_is_not_allowed_is_refused(named: str) -> None:
    async with pair(open=False, allowed=(("127.0.0.1", 2),)) as fake:
        response, body = await fake.ask(BODY, at=named)
    assert response.status == 403
    error = msgspec.json.decode(body)["error"]
    assert (error["code"], error["type"]) == (403, "Forbidden")
    assert fake.decode.seen == []
    assert fake.stats.denied == 1


async def test_of_several_named_the_first_is_called() -> None:
    async with pair() as fake:
        await fake.ask(BODY, at=f" {fake.prefill.address} , 127.0.0.1:{free_port()}")
    assert len(fake.prefill.seen) == 1


async def test_of_several_named_any_is_called_if_told_so() -> None:
    async with pair(sample_prefillers=True) as fake:
        results = set()
        for _ in range(40):
            response, _ = await fake.ask(BODY, at=f"{fake.prefill.address},127.0.0.1:1")
            results.add(response.headers["x-warmroute-prefill"])
    assert results == {"ok", "failed"}


@pytest.mark.parametrize("raw", [b"{", b"[1]", b"", b"\xff"])
async def test_what_is_no_json_object_is_the_decode_engines_to_refuse(raw: bytes) -> None:
    async with setup(FakeEngine(PREFILLED), FakeEngine(says({"e": 1}, 400))) as fake:
        response, _ = await fake.ask(raw)
    assert response.status == 400
    assert [seen.raw for seen in fake.decode.seen] == [raw]
    assert fake.prefill.seen == []


async def test_packed_bodies_pass_as_they_are() -> None:
    packed = gzip.compress(msgspec.json.encode(BODY))
    async with pair() as fake:
        await fake.ask(packed, **{"content-encoding": "gzip"})
    (seen,) = fake.decode.seen
    assert (seen.raw, seen.headers["content-encoding"]) == (packed, "gzip")


async def test_a_body_above_the_cap_is_refused() -> None:
    async with pair(max_body_bytes=1000) as fake:
        response, body = await fake.ask({"prompt": "x" * 1000})
    assert response.status == 413
    assert b"1000 bytes" in body


async def test_a_decode_engine_that_is_not_there_is_a_bad_gateway() -> None:
    async with pair(engine_port=free_port()) as fake:
        response, body = await fake.ask(BODY, at="")
    assert response.status == 502
    assert msgspec.json.decode(body)["error"]["type"] == "BadGateway"
    assert fake.stats.failed == 1


async def test_an_answer_that_breaks_off_does_not_look_complete() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        assert request.transport is not None
        request.transport.close()
        return response

    async with setup(FakeEngine(PREFILLED), FakeEngine(breaks)) as fake:
        with pytest.raises(aiohttp.ClientPayloadError):
            await fake.ask(BODY)


async def test_a_stream_passes_piece_by_piece_and_ends_when_the_client_leaves() -> None:
    go = asyncio.Event()
    engine = FakeEngine(streams(b"data: 1\n\n", b"data: 2\n\n", pause=go))
    async with setup(FakeEngine(PREFILLED), engine) as fake:
        async with fake.session.post(f"{fake.url}/v1/completions", json=BODY) as response:
            assert await response.content.readany() == b"data: 1\n\n"
        await until(lambda: fake.decode.left == 1)


async def test_a_client_that_leaves_before_the_answer_ends_the_decode_request() -> None:
    async with setup(FakeEngine(PREFILLED), FakeEngine(hangs)) as fake:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(fake.ask(BODY, at=""))
            await until(lambda: fake.decode.seen)
            task.cancel()
        await until(lambda: fake.decode.left == 1)


async def test_ranks_have_ports_of_their_own_or_are_named_in_a_header() -> None:
    first, second = FakeEngine(DECODED), FakeEngine(DECODED)
    async with second.serving():
        port = free_port(run=2)
        async with setup(
            FakeEngine(PREFILLED), first, ranks=2, port=port, engine_port=second.port - 1
        ) as fake:
            await fake.ask(BODY, at="", **{"x-data-parallel-host-port": f"10.0.0.9:{port + 1}"})
            async with fake.session.post(
                f"http://127.0.0.1:{port + 1}/v1/completions", json=BODY
            ) as response:
                assert response.status == 200
    assert len(second.seen) == 2


async def test_a_rank_behind_the_decode_engines_port_is_no_rank_of_the_prefill_engine() -> None:
    async with pair() as fake:
        await fake.ask(BODY, **{"x-data-parallel-rank": "3"})
    assert "x-data-parallel-rank" not in fake.prefill.seen[0].headers
    assert fake.decode.seen[0].headers["x-data-parallel-rank"] == "3"
