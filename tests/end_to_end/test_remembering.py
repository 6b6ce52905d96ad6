"""Plugins that remember, through real Envoy: sessions, peers, estimated prefixes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.echo_engine import echo_engine
from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    endpoints_file,
    router_and_envoy,
    tokenizer,
    until,
)

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


@asynccontextmanager
async def echo_fleet(folder: Path, config: str, *, engines: int = 3) -> AsyncIterator[Fleet]:
    """Echoing engines behind everything else, routed by a configuration."""
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(engines)]
    file = folder / "config.yaml"
    file.write_text(HEAD + config)
    timeout = aiohttp.ClientTimeout(total=30)
    async with AsyncExitStack() as stack:
        for host in hosts:
            await stack.enter_async_context(echo_engine(host))
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        endpoints = endpoints_file(folder / "endpoints.json", fleet.engines)
        await stack.enter_async_context(tokenizer(fleet))
        flags = f"--config-file={file}"
        await stack.enter_async_context(router_and_envoy(fleet, endpoints, flags))
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)
        yield fleet


async def ask(
    fleet: Fleet, prompt: str = "hello", **headers: str
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The headers the engine got and those the client gets."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "tiny", "prompt": prompt}
    url = f"{fleet.url}/v1/completions"
    async with fleet.session.post(url, json=body, headers=named) as response:
        assert response.status == 200, await response.text()
        told: Any = await response.json()
        got = {name.lower(): value for name, value in told["headers"]}
        return got, {name.lower(): value for name, value in response.headers.items()}


DESTINATION = "x-gateway-destination-endpoint"


async def test_a_session_finds_back_by_the_token_that_its_client_was_given(tmp_path: Path) -> None:
    config = "plugins: [{type: session-affinity-filter}, {type: active-request-scorer}]\n"
    async with echo_fleet(tmp_path, config) as fleet:
        tokens = {}
        for _ in range(40):
            got, told = await ask(fleet)
            tokens[got[DESTINATION]] = told["x-session-token"]
            if len(tokens) == len(fleet.engines):
                break
        assert set(tokens) == set(fleet.engines)
        for endpoint, token in tokens.items():
            for _ in range(5):
                got, told = await ask(fleet, x_session_token=token)
                assert got[DESTINATION] == endpoint
                assert told["x-session-token"] == token
        got, _ = await ask(fleet, x_session_token="bm8vc3VjaA==")
        assert got[DESTINATION] in fleet.engines


async def test_a_session_stays_by_an_id_of_its_own(tmp_path: Path) -> None:
    config = """\
plugins:
  - type: agent-identity
  - type: session-affinity-scorer
    parameters:
      strategy: session_id
      sessionIdConfig:
        sources: [{header: x-user}, {attribute: agent-identity}]
"""
    async with echo_fleet(tmp_path, config) as fleet:
        places = {}
        for session in range(12):
            got, told = await ask(fleet, x_user=f"u{session}")
            places[session] = got[DESTINATION]
            assert "x-session-token" not in told
        assert len(set(places.values())) > 1
        for session, endpoint in places.items():
            got, _ = await ask(fleet, x_user=f"u{session}")
            assert got[DESTINATION] == endpoint
        first, _ = await ask(fleet, session_id="agent-1")
        for _ in range(5):
            got, _ = await ask(fleet, session_id="agent-1")
            assert got[DESTINATION] == first[DESTINATION]
        record = (await fleet.get("/debug/decisions?limit=1"))["decisions"][0]
        assert record["fairness_id"] == "agent-1"


async def test_a_prompt_goes_back_to_where_it_went_and_a_peer_is_named_to_others(
    tmp_path: Path,
) -> None:
    # Sessions force some requests away from where the prefix is: those are told of the peer.
    config = """\
plugins:
  - type: approx-prefix-cache-producer
  - type: p2p-source-producer
  - type: session-affinity-scorer
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: session-affinity-scorer, weight: 5}
      - {pluginRef: prefix-cache-scorer, weight: 1}
"""
    async with echo_fleet(tmp_path, config) as fleet:
        prompt = "the quick brown fox jumps over the lazy dog " * 60
        first, told = await ask(fleet, prompt)
        warm = first[DESTINATION]
        assert "x-kv-cache-source-host-port" not in first
        for n in range(5):
            got, _ = await ask(fleet, f"{prompt}{n}")
            assert got[DESTINATION] == warm
            assert "x-kv-cache-source-host-port" not in got
        tokens = {warm: told["x-session-token"]}
        for n in range(40):
            other, told = await ask(fleet, f"{n} is something else entirely")
            tokens[other[DESTINATION]] = told["x-session-token"]
        cold = next(endpoint for endpoint in tokens if endpoint != warm)
        got, _ = await ask(
            fleet,
            f"{prompt}again",
            x_session_token=tokens[cold],
            x_kv_cache_source_host_port="1.2.3.4:5",
        )
        assert got[DESTINATION] == cold
        assert got["x-kv-cache-source-host-port"] == warm


async def test_a_burst_of_one_prompt_goes_to_one_engine_and_a_cookie_holds_a_session(
    tmp_path: Path,
) -> None:
    config = """\
plugins:
  - type: burst-prefix-cache-producer
    parameters: {maxBatchSize: 6, windowDurationMs: 2000}
  - type: mm-embeddings-cache-producer
  - type: session-id-producer
    parameters: {cookieName: sid}
  - type: session-affinity-scorer
    parameters:
      strategy: session_id
      sessionIdConfig: {sources: [{attribute: session}]}
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: session-affinity-scorer, weight: 5}
      - {pluginRef: prefix-cache-scorer, weight: 1}
"""
    async with echo_fleet(tmp_path, config) as fleet:
        answers = await asyncio.gather(
            *(ask(fleet, "one prompt", cookie="sid=s1") for _ in range(1)),
            *(ask(fleet, "another prompt") for _ in range(5)),
        )
        places = [got[DESTINATION] for got, _ in answers]
        assert len(set(places[1:])) == 1
        again = await asyncio.gather(*(ask(fleet, "third", cookie="a=b; sid=s1") for _ in range(6)))
        assert {got[DESTINATION] for got, _ in again} == {places[0]}
