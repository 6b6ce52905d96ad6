"""Odd requests, odd answers and odd ends: each client gets its own, and nothing stays behind."""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from router.request.parse import APIS
from tests.end_to_end.test_bytes import JSON, chat_body, echo_fleet
from tests.support import http2
from tests.support.corpus import corpus
from tests.support.echo_engine import EchoEngine
from tests.support.processes import Fleet, endpoints_file, until

MIB = 1024 * 1024

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("protocol")]

Served = tuple[Fleet, EchoEngine]


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=[False, True], ids=["buffered", "full-duplex"]
)
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Served]:
    """One fleet for all tests of a mode: whatever one of them does, the next finds it as it was."""
    folder = tmp_path_factory.mktemp("protocol")
    settings = {"full_duplex_response": request.param}
    async with echo_fleet(folder, full_duplex=request.param, envoy_settings=settings) as running:
        yield running


@pytest.fixture(autouse=True)
def cleared(served: Served) -> None:
    """Nothing that an earlier test noted or left."""
    served[1].chunks = asyncio.Queue()
    served[1].requests.clear()
    served[1].aborted = 0


async def post(
    fleet: Fleet, body: bytes, path: str = "/v1/chat/completions", **headers: str
) -> Any:
    """Status, and the body decoded where it is JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{fleet.url}{path}"
    sent = io.BytesIO(body)
    async with fleet.session.post(url, data=sent, headers={**JSON, **named}) as response:
        return response.status, msgspec.json.decode(await response.read())


async def none_left(fleet: Fleet) -> bool:
    held = await fleet.metric("warmroute_inflight_requests")
    return held == 0 and await fleet.metric("warmroute_streams_open") == 0


async def test_clients_of_http_1_0_are_answered(served: Served) -> None:
    fleet, _ = served
    body = chat_body(500)
    head = f"POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {len(body)}\r\n"
    address = fleet.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(address[0], int(address[2]))
    writer.write(f"{head}content-type: application/json\r\nhost: x\r\n\r\n".encode() + body)
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    told = msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])
    assert told["sha256"] == hashlib.sha256(body).hexdigest()


async def test_packed_bodies_go_on_as_they_were_sent_and_bombs_do_not(served: Served) -> None:
    fleet, engine = served
    packed = gzip.compress(chat_body(5000))
    status, told = await post(fleet, packed, content_encoding="gzip")
    assert (status, told["sha256"]) == (200, hashlib.sha256(packed).hexdigest())
    assert ["Content-Encoding", "gzip"] in [[k.title(), v] for k, v in told["headers"]]
    bomb = gzip.compress(chat_body(65 * MIB))
    assert len(bomb) < MIB
    status, told = await post(fleet, bomb, content_encoding="gzip")
    assert (status, told["error"]["code"]) == (413, 413)
    assert (await post(fleet, packed[:50], content_encoding="gzip"))[0] == 400
    assert (await post(fleet, b"no gzip", content_encoding="gzip"))[0] == 400
    assert (await post(fleet, packed, content_encoding="br"))[0] == 200
    assert len(engine.requests) == 2
    (record, *_) = (await fleet.get("/debug/decisions?limit=10"))["decisions"]
    assert record["kind"] == "other"


async def test_what_clients_may_not_send_reaches_no_engine_on_any_path(served: Served) -> None:
    fleet, engine = served
    given = {
        "prompt": "x",
        "messages": [{"role": "user", "content": "x"}],
        "input": "x",
        "token_ids": [1],
        "text": "x",
        "kv_transfer_params": {"do_remote_prefill": True},
    }
    body = msgspec.json.encode(given)
    for path in (*APIS, "%63ompletions", "new"):
        status, told = await post(fleet, body, f"/v1/{path}")
        assert (status, told["error"]["type"]) == (400, "BadRequestError"), path
    packed = gzip.compress(body)
    assert (await post(fleet, packed, "/v1/completions", content_encoding="gzip"))[0] == 400
    assert engine.requests == []


async def test_no_request_of_hundreds_is_the_routers_fault(served: Served) -> None:
    fleet, engine = served
    passed = 0
    for sent in corpus(11, 200):
        async with fleet.session.request(
            sent.method, f"{fleet.url}{sent.path}", data=sent.body, headers=sent.headers
        ) as response:
            text = await response.read()
        assert response.status in (200, 400), (sent.path, text)
        passed += response.status == 200
        if response.status == 200:
            told = msgspec.json.decode(text)
            assert told["sha256"] == hashlib.sha256(sent.body).hexdigest()
    assert len(engine.requests) == passed
    await until(lambda: none_left(fleet))
    assert await fleet.metric("warmroute_streams_failed_total") == 0


ANSWERS = [
    (503, "text/plain", b"upstream is sad"),
    (404, "application/json", b'{"error": {"message": "no such model"}}'),
    (200, "application/json", b""),
    (200, "application/json", b"{no json"),
    *(
        (200, "application/json", b'{"usage": ' + usage + b"}")
        for usage in (b'"x"', b"[1]", b'{"prompt_tokens": "7"}', b'{"prompt_tokens": -1}')
    ),
    (200, "application/json", b'{"usage": {"prompt_tokens": 1e308}}'),
    (200, "application/json", b'{"usage": null}'),
    (200, "application/json", b" " * 5 * MIB),
]
UNREADABLE = 7


async def test_answers_that_make_no_sense_arrive_untouched(served: Served) -> None:
    fleet, engine = served
    url = f"{fleet.url}/v1/completions"
    body = b'{"prompt": "x", "model": "tiny"}'
    unreadable = await fleet.metric("warmroute_unreadable_usage_total")
    read = await fleet.metric("llm_d_epp_request_input_tokens_count")
    for answer in ANSWERS:
        engine.answers.append(answer)
        async with fleet.session.post(
            url, data=body, headers={**JSON, "x-test": "answer"}
        ) as response:
            assert response.headers["x-engine"] == "yes"
            got = response.status, response.headers["content-type"], await response.read()
        assert got == answer
    await until(lambda: none_left(fleet))
    more = await fleet.metric("warmroute_unreadable_usage_total") - unreadable
    assert more == UNREADABLE
    assert await fleet.metric("llm_d_epp_request_input_tokens_count") == read


async def read_all(served: Served, test: str) -> bytes:
    """An answer whose engine does what `test` says, once the client has a part of it."""
    fleet, engine = served
    async with fleet.session.post(
        f"{fleet.url}/v1/chat/completions",
        data=chat_body(400),
        headers={**JSON, "x-test": test},
    ) as response:
        if test == "reset":
            await response.content.readany()
            engine.chunks.put_nowait(None)
        return await response.read()


async def test_an_engine_that_breaks_off_is_counted_out(served: Served) -> None:
    fleet, _ = served
    with pytest.raises(aiohttp.ClientPayloadError):
        await read_all(served, "reset")
    await until(lambda: none_left(fleet))


async def test_an_engine_that_falls_silent_is_counted_out_with_its_client(served: Served) -> None:
    fleet, engine = served
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_all(served, "stream"), 0.5)
    await until(lambda: none_left(fleet))
    await until(lambda: engine.aborted == 1)


async def test_an_endpoint_that_leaves_and_comes_back_keeps_its_count_exact(served: Served) -> None:
    fleet, engine = served
    engine.chunks.put_nowait(b"data: 1\n\n")
    async with fleet.session.post(
        f"{fleet.url}/v1/chat/completions",
        data=chat_body(400),
        headers={**JSON, "x-test": "stream"},
    ) as response:
        await response.content.readany()
        for listed in ([], fleet.engines):
            endpoints_file(fleet.folder / "endpoints.json", listed)

            async def follows(listed: list[str] = listed) -> bool:
                state = await fleet.get("/debug/state")
                return [e["address"] for e in state["endpoints"]] == listed

            await until(follows)
        engine.chunks.put_nowait(b"data: 2\n\n")
        engine.chunks.put_nowait(None)
        assert (await response.content.read()).endswith(b"data: 2\n\n")
    await until(lambda: none_left(fleet))


async def test_bodies_of_the_cap_pass_and_nobody_waits_for_them(served: Served) -> None:
    fleet, _ = served
    large = chat_body(64 * MIB)

    async def small() -> float:
        start = asyncio.get_running_loop().time()
        assert (await post(fleet, chat_body(300)))[0] == 200
        return asyncio.get_running_loop().time() - start

    async with asyncio.TaskGroup() as group:
        sending = group.create_task(post(fleet, large))
        waited = []
        while not sending.done():
            waited.append(await small())
    status, told = sending.result()
    assert (status, told["sha256"]) == (200, hashlib.sha256(large).hexdigest())
    assert max(waited) < 5


async def curl(*arguments: str) -> tuple[str, bytes]:
    """The version of HTTP that was spoken, and what came back."""
    running = await asyncio.create_subprocess_exec(
        "curl", "-sS", "-m", "20", "-N", "-w", "\n%{http_version} %{http_code}", *arguments,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await running.communicate()
    assert running.returncode == 0
    body, _, told = out.rpartition(b"\n")
    return told.decode(), body


@pytest.mark.parametrize(
    ("flag", "version"), [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")]
)
async def test_curl_gets_its_events_over_either_http(
    served: Served, tmp_path: Path, flag: str, version: str
) -> None:
    fleet, engine = served
    events = [b'data: {"n":%d}\n\n' % n for n in range(200)] + [b"data: [DONE]\n\n"]
    for event in (*events, None):
        engine.chunks.put_nowait(event)
    body = tmp_path / "body.json"
    body.write_bytes(chat_body(200_000))
    told, got = await curl(
        flag,
        "--data-binary",
        f"@{body}",
        "-H",
        "content-type: application/json",
        "-H",
        "x-test: stream",
        f"{fleet.url}/v1/chat/completions",
    )
    assert (told, got) == (f"{version} 200", b"".join(events))


async def test_an_http2_client_sees_each_event_as_it_comes(served: Served) -> None:
    fleet, engine = served
    for n in range(100):
        engine.chunks.put_nowait(b"data: %d\n\n" % n)
    engine.chunks.put_nowait(None)
    answer = await http2.send(
        fleet.port,
        "POST",
        "/v1/chat/completions",
        headers={**JSON, "x-test": "stream"},
        body=(chat_body(100_000),),
    )
    assert answer.status == 200
    assert answer.body == b"".join(b"data: %d\n\n" % n for n in range(100))
    assert "content-length" not in dict(answer.headers)
    assert not [name for name, _ in answer.headers if name == "transfer-encoding"]


async def test_the_same_prompt_is_known_by_whichever_api_it_comes(served: Served) -> None:
    fleet, _ = served
    text = "a prompt of some length, the same for every API " * 8
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}]}
    blocks = [{"type": "text", "text": text}]
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": chat,
        "/v1/messages": {"system": "s", "messages": [{"role": "user", "content": blocks}]},
        "/v1/responses": {"instructions": "s", "input": text},
        "/invocations": chat,
    }

    async def tokens(path: str) -> int | None:
        packed = gzip.compress(msgspec.json.encode({"model": "tiny", **bodies[path]}))
        assert (await post(fleet, packed, path, content_encoding="gzip"))[0] == 200
        (record,) = (await fleet.get("/debug/decisions?limit=1"))["decisions"]
        told: int | None = record["prompt_tokens"]
        return told

    # A machine that is busy may have made the router give the tokenizer a rest.
    told = {await until(functools.partial(tokens, path)) for path in bodies}
    assert len(told) == 1
    assert told.pop() > 80
