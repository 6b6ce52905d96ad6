"""Fleets with something wrong, and what the doctor says of them. IO."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from simulator.config import BUNDLED_MODEL_DIR
from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    command,
    endpoints_file,
    engine,
    router_and_envoy,
    tokenizer,
    until,
)

TEXT = (
    "Explain in plain words what a key value cache of a language model holds, why the engine that "
    "has already read a prompt answers the next one that starts alike sooner, and what a router "
    "must know to send it there. "
)
"""Several blocks of tokens."""


@asynccontextmanager
async def faulty_fleet(
    folder: Path,
    *,
    engines: int = 1,
    engine_flags: tuple[str, ...] = (),
    router_flags: tuple[str, ...] = (),
    model_dir: Path | None = None,
    events: str = "",
) -> AsyncIterator[Fleet]:
    """Everything, serving; whatever is degraded. `model_dir`: another tokenizer than the engines'.

    `events`: address where events are read in place of the engines' own.
    """
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(engines)]
    timeout = aiohttp.ClientTimeout(total=60)
    model = () if model_dir is None else (f"--model=tiny={model_dir}",)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        endpoints = _endpoints(folder, fleet.engines, events)
        for host in hosts:
            await stack.enter_async_context(engine(fleet, host, *engine_flags))
        await stack.enter_async_context(tokenizer(fleet, *model))
        await stack.enter_async_context(router_and_envoy(fleet, endpoints, *router_flags))
        await until(lambda: _settled(fleet, engines), START_S)
        await until(fleet.answers, START_S)
        yield fleet


def _endpoints(folder: Path, engines: Sequence[str], events: str) -> Path:
    own = {address.replace(".", "_"): events for address in engines} if events else {}
    return endpoints_file(folder / "endpoints.json", engines, **own)


async def _settled(fleet: Fleet, engines: int) -> bool:
    """Engines are scraped and the tokenizer is there."""
    try:
        state = await fleet.get("/debug/state")
    except aiohttp.ClientError:
        return False
    scraped = [e for e in state["endpoints"] if e["metrics"] is not None and e["models"]]
    connected = all(tokenizer["connected"] for tokenizer in state["tokenizers"])
    return len(scraped) == engines and connected and not any(await _not_ready(fleet))


async def _not_ready(fleet: Fleet) -> list[str]:
    degraded = (await fleet.get("/readyz"))["degraded"]
    return [fault for fault in degraded if fault.startswith("tokenizer")]


async def ask(fleet: Fleet, prompt: str, count: int = 1, **fields: Any) -> None:
    """Complete a prompt some times, one after the other."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 2, **fields}
    for _ in range(count):
        async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as response:
            assert response.status == 200, await response.text()
            await response.read()


async def told(fleet: Fleet, silence: str = "30s") -> list[Any]:
    """What the doctor finds, in its order."""
    found: list[Any] = (await fleet.get(f"/debug/doctor?silence={silence}"))["findings"]
    return found


async def findings(fleet: Fleet, silence: str = "30s") -> dict[str, Any]:
    """What the doctor finds, by code; of several of one kind the last."""
    return {finding["code"]: finding for finding in await told(fleet, silence)}


async def found(fleet: Fleet, code: str, silence: str = "30s", about: str | None = None) -> Any:
    """Wait until the doctor finds this, about one part where that is told; the finding."""

    async def there() -> Any:
        fitting = [f for f in await told(fleet, silence) if _is(f, code, about)]
        return fitting[-1] if fitting else None

    return await until(there, 30.0)


async def finds(fleet: Fleet, code: str, about: str | None = None) -> bool:
    """Whether the doctor finds this now."""
    return any(_is(finding, code, about) for finding in await told(fleet))


async def gone(fleet: Fleet, code: str, about: str | None = None) -> None:
    """Wait until the doctor finds this no more."""

    async def away() -> bool:
        return not await finds(fleet, code, about)

    await until(away, 30.0)


def _is(finding: Any, code: str, about: str | None) -> bool:
    return finding["code"] == code and about in (None, finding["about"])


async def doctor(fleet: Fleet, *flags: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    asked = command("doctor", f"--url={fleet.http}", *flags)
    process = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def other_tokenizer(folder: Path) -> Path:
    """The bundled tokenizer without most of its merges: it makes more tokens of every text."""
    copied = folder / "other"
    shutil.copytree(BUNDLED_MODEL_DIR, copied)
    path = copied / "tokenizer.json"
    data = msgspec.json.decode(path.read_bytes())
    data["model"]["merges"] = data["model"]["merges"][:200]
    path.write_bytes(msgspec.json.encode(data))
    return copied
