"""The tokenizer is killed, hung, restarted and replaced under load: no request minds."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import aiohttp

from router.config.builtin import BUILTIN
from simulator.config import BUNDLED_MODEL_DIR
from tests.end_to_end.routers import router
from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    endpoints_file,
    engine,
    is_running,
    router_and_envoy,
    tokenizer,
    until,
)

CLIENTS = 4

SIDECAR = "sidecar: {timeout: 400ms}"
LLMD = """modelName: tiny
      udsTokenizerConfig: {socketFile: SOCKET}"""

ALLOWED_S = 8.0
"""What a request may take while the tokenizer hangs; its own budget is a small part of that."""


class Load:
    """Clients that never pause, with prompts that share a long beginning."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._numbers = count()
        self.statuses: list[int] = []
        self.slowest_s = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(self._client()) for _ in range(CLIENTS)]
            try:
                yield
            finally:
                for client in clients:
                    client.cancel()

    async def _client(self) -> None:
        loop = asyncio.get_running_loop()
        for number in self._numbers:
            text = f"{'one two three four five ' * 60}{number}"
            body = {
                "model": "tiny",
                "max_tokens": 1,
                "messages": [{"role": "user", "content": text}],
            }
            began = loop.time()
            url = f"{self._fleet.url}/v1/chat/completions"
            async with self._fleet.session.post(url, json=body) as response:
                await response.read()
                self.statuses.append(response.status)
            self.slowest_s = max(self.slowest_s, loop.time() - began)


@asynccontextmanager
async def fleet_with(folder: Path, tokens: str) -> AsyncIterator[Fleet]:
    """Two engines behind Envoy and a router; nobody tokenizes yet."""
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(2)]
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=60)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        config = folder / "config.yaml"
        text = BUILTIN.replace("sidecar: {}", tokens.replace("SOCKET", str(fleet.socket)))
        config.write_text(text)
        fleet.engines = [f"{host}:8000" for host in hosts]
        endpoints = endpoints_file(folder / "endpoints.json", fleet.engines)
        for host in hosts:
            await stack.enter_async_context(engine(fleet, host))
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, f"--config-file={config}")
        )
        await until(fleet.answers, START_S)
        yield fleet


async def missed(fleet: Fleet, reason: str) -> float:
    return await fleet.metric("warmroute_untokenized_requests_total", reason=reason)


async def misses(fleet: Fleet, reason: str) -> None:
    """Wait until requests go without ids for this reason."""
    before = await missed(fleet, reason)

    async def missing() -> bool:
        return await missed(fleet, reason) > before

    await until(missing, START_S)


async def hits(fleet: Fleet) -> None:
    """Wait until requests are again expected to find their prefix, and engines agree."""
    names = ("warmroute_predicted_cached_tokens_total", "warmroute_compared_cached_tokens_total")
    before = [await fleet.metric(name) for name in names]

    async def hitting() -> bool:
        now = [await fleet.metric(name) for name in names]
        return all(after > then + 1000 for after, then in zip(now, before, strict=True))

    await until(hitting, START_S)


async def ended(process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(30):
        await process.wait()


async def test_killed_hung_restarted_and_replaced_it_fails_no_request(tmp_path: Path) -> None:
    other_model = shutil.copytree(BUNDLED_MODEL_DIR, tmp_path / "other")
    async with fleet_with(tmp_path, SIDECAR) as fleet:
        load = Load(fleet)
        async with load.running():
            await misses(fleet, "unavailable")  # it comes late
            async with tokenizer(fleet) as killed:
                await hits(fleet)
                killed.send_signal(signal.SIGKILL)
                await ended(killed)
                await misses(fleet, "unavailable")
            async with tokenizer(fleet) as hung:
                await hits(fleet)
                hung.send_signal(signal.SIGSTOP)
                await misses(fleet, "timeout")
                await misses(fleet, "breaker_open")
                hung.send_signal(signal.SIGCONT)
                await hits(fleet)
            async with tokenizer(fleet, f"--model=tiny={other_model}"):
                await hits(fleet)
                # Another one takes its place while it goes on living.
                dialled = await fleet.metric("warmroute_tokenizer_connections_total")
                beside = tmp_path / "beside.sock"
                async with tokenizer(fleet, socket=beside):
                    await until(beside.exists, START_S)
                    beside.rename(fleet.socket)
                    await until(lambda: _redialled(fleet, dialled), START_S)
                    await hits(fleet)
        assert set(load.statuses) == {200}
        assert len(load.statuses) > 200
        assert load.slowest_s < ALLOWED_S
        assert is_running(fleet.processes["router"].pid)
        assert await missed(fleet, "failed") == 0


async def test_by_llm_ds_contract_too(tmp_path: Path) -> None:
    async with fleet_with(tmp_path, LLMD) as fleet:
        load = Load(fleet)
        async with load.running():
            await misses(fleet, "unavailable")
            for _ in range(2):
                async with tokenizer(fleet) as killed:
                    await hits(fleet)
                    killed.send_signal(signal.SIGKILL)
                    await ended(killed)
                    await misses(fleet, "unavailable")
            async with tokenizer(fleet):
                await hits(fleet)
        assert set(load.statuses) == {200}
        assert await missed(fleet, "failed") == 0


async def test_estimated_ids_need_no_tokenizer(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(BUILTIN.replace("sidecar: {}", "estimate: {}"))
    (tmp_path / "endpoints.json").write_text('{"endpoints": []}')
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(tmp_path, session)
        async with router(fleet, f"--config-file={config}"):
            told = await fleet.match({"model": "m", "prompt": "x" * 400})
            assert (told["tokens"], told["total_blocks"]) == (100, 6)
            assert b"can never match" in fleet.log.read_bytes()


async def _redialled(fleet: Fleet, before: float) -> bool:
    return await fleet.metric("warmroute_tokenizer_connections_total") > before
