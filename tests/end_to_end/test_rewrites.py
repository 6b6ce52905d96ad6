"""Requests that are sent to another model than they name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.end_to_end.test_bytes import JSON, echo_fleet
from tests.support.echo_engine import EchoEngine
from tests.support.processes import Fleet, until

LONG = "org/a-much-longer-model-name"


async def rules(fleet: Fleet, *given: Any) -> None:
    """Write rules into the endpoints file and wait until they are in force."""
    path = fleet.folder / "endpoints.json"
    file = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode({**file, "modelRewrites": given}))

    async def in_force() -> bool:
        body = {"model": "asked", "prompt": "x"}
        async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as response:
            return "asked" not in (await response.json())["start"]

    await until(in_force)


def to(*targets: str, of: str) -> Any:
    named = [{"modelRewrite": target} for target in targets]
    return {"matches": [{"model": {"value": of}}], "targets": named}


async def send(fleet: Fleet, body: bytes, **headers: str) -> tuple[bytes, dict[str, list[str]]]:
    """The body and the headers that the engine got."""
    url = f"{fleet.url}/v1/chat/completions"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with fleet.session.post(url, data=body, headers={**JSON, **named}) as response:
        assert response.status == 200, await response.text()
        told = await response.json()
    got: dict[str, list[str]] = {}
    for name, value in told["headers"]:
        got.setdefault(name.lower(), []).append(value)
    assert told["size"] == len(told["start"])
    return told["start"].encode("latin-1"), got


def chat(model: str) -> bytes:
    return (
        b' { "temperature":1.50, "big": 123456789012345678901234,"model" :"%b" ,'
        b'"messages":[{"role":"user","content":"gr\\u00fcn \xc3\xbc"}]}\n' % model.encode()
    )


@pytest.mark.parametrize(("asked", "target"), [("m", LONG), (LONG, "m")], ids=["longer", "shorter"])
async def test_only_the_models_value_changes_and_the_length_is_right(
    tmp_path: Path, full_duplex: bool, asked: str, target: str
) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, _):
        await rules(fleet, to(target, of=asked), to("tiny", of="asked"))
        body, headers = await send(fleet, chat(asked))
        assert body == chat(target)
        framing = headers.get("content-length"), headers.get("transfer-encoding")
        assert framing == ([str(len(body))], None)
        body, headers = await send(fleet, gzip.compress(chat(asked)), content_encoding="gzip")
        assert body == chat(target)
        assert "content-encoding" not in headers
        by_header, headers = await send(fleet, chat("x"), X_LLM_D_Model_Name_Rewrite=target)
        assert by_header == chat(target)
        assert not [name for name in headers if "rewrite" in name]
        body, headers = await send(fleet, chat("unnamed"))
        assert body == chat("unnamed")
        state = await fleet.get("/debug/decisions?limit=10")
        assert {r["target_model"] for r in state["decisions"]} >= {target, "unnamed"}


EVENTS = [
    b'data: {"model":"target","n":1}\n\n',
    b'data: {"mod',
    b'el":"target","n":2}\n',
    b"\ndata: [DONE]\n\n",
]


async def answers(fleet: Fleet, engine: EchoEngine, sent: list[bytes], kind: str) -> bytes:
    """What a client gets of an answer that the engine sends in these pieces."""
    body = {"model": "asked", "messages": [{"role": "user", "content": "x"}], "stream": True}
    headers = {"x-test": "stream", "x-test-type": kind}
    for chunk in (*sent, None):
        engine.chunks.put_nowait(chunk)
    url = f"{fleet.url}/v1/chat/completions"
    async with fleet.session.post(url, json=body, headers=headers) as response:
        assert response.status == 200
        assert response.headers["content-type"] == kind
        return await response.read()


async def test_answers_name_the_model_as_the_client_did(tmp_path: Path, full_duplex: bool) -> None:
    async with echo_fleet(
        tmp_path,
        full_duplex=full_duplex,
        router_flags=("--rewrite-response-model", "--usage-sample=0"),
        envoy_settings={"full_duplex_response": full_duplex},
    ) as (fleet, engine):
        await rules(fleet, to("target", of="asked"))
        got = await answers(fleet, engine, EVENTS, "text/event-stream")
        assert got == b"".join(EVENTS).replace(b"target", b"asked")
        json_answer = [b'{"id": 1, "model": "tar', b'get", "text": "', b"x" * 200_000, b'"}']
        got = await answers(fleet, engine, json_answer, "application/json")
        assert got == b"".join(json_answer).replace(b"target", b"asked")
        plain = [b'"model": "target"']
        assert await answers(fleet, engine, plain, "text/plain") == plain[0]
        # An answer of known length, which becomes a shorter one.
        url = f"{fleet.url}/v1/completions"
        body = {"model": "asked", "prompt": "x"}
        async with fleet.session.post(url, json=body, headers={"x-test": "model"}) as response:
            assert await response.read() == b'{"model": "asked"}'
