"""Requests that are sent to another model than they name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.end_to_end.test_bytes import JSON, echo_fleet
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
