"""A new configuration replaces what it changes of a running router, and nothing else."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq

from router.config.load import load
from router.pool.topology import TopologyLabels
from router.producers.facts import Facts
from router.producers.prefix import PrecisePrefix
from router.producers.types import Producer
from tests.support import make
from tests.support.ports import free_port
from warmroute import serve
from warmroute.crew import Crew
from warmroute.errors import StartError
from warmroute.parts import Parts

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}
PRECISE = "precise-prefix-cache-producer"
QUEUE = {"type": "queue-scorer"}


def plugin(kind: str, **parameters: Any) -> Mapping[str, Any]:
    return {"type": kind, "parameters": parameters}


def precise(block: int = 16, **events: Any) -> Mapping[str, Any]:
    return plugin(
        PRECISE, tokenProcessorConfig={"blockSizeTokens": block}, kvEventsConfig=dict(events)
    )


ESTIMATE = plugin("token-producer", estimate={})


class Running:
    """A crew whose configuration can be replaced."""

    def __init__(self, crew: Crew, parts: Parts) -> None:
        self.crew = crew
        self.parts = parts
        self._plugins: Any = {}

    async def adopt(self, *plugins: Mapping[str, Any]) -> None:
        config = load(msgspec.json.encode(HEAD | {"plugins": plugins}).decode(), self._plugins)
        await self.crew.adopt(config)
        self._plugins = config.plugins

    @property
    def producers(self) -> dict[str, Producer]:
        return {type(p).__name__: p for p in self.parts.director.lineup.producers}


@asynccontextmanager
async def running(folder: Path, configured: dict[str, Any] | None = None) -> AsyncIterator[Running]:
    """With the endpoints of a flag, or those that the configuration names."""
    endpoints = folder / "endpoints.json"
    endpoints.write_text('{"endpoints": []}')
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    given = HEAD | (configured or {"plugins": [QUEUE]})
    flags = [f"--config-text={msgspec.json.encode(given).decode()}"]
    if configured is None:
        flags.append(f"--endpoints={endpoints}")
    options = serve.options(parser.parse_args(flags))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    parts = Parts(options)
    try:
        async with asyncio.TaskGroup() as group:
            crew = Crew(parts, context, group)
            try:
                yield Running(crew, parts)
            finally:
                await crew.close()
    finally:
        context.destroy(linger=0)


async def test_a_producer_that_did_not_change_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(ESTIMATE, precise(), plugin("active-request-scorer"))
        before = router.producers
        await router.adopt(ESTIMATE, precise(), plugin("active-request-scorer"), QUEUE)
        assert router.producers == before
        assert [s.name for s in router.parts.director.lineup.profiles["default"].scorers] == [
            "active-request-scorer",
            "queue-scorer",
        ]


async def test_one_that_changed_is_replaced_and_the_others_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(ESTIMATE, precise(16), plugin("active-request-scorer"))
        before, tokenizers = router.producers, router.crew.tokenizers
        await router.adopt(ESTIMATE, precise(32), plugin("active-request-scorer"))
        after = router.producers
        assert after["PrecisePrefix"] is not before["PrecisePrefix"]
        assert after["InFlightLoad"] is before["InFlightLoad"]
        assert after["TokenProducer"] is before["TokenProducer"]
        (prefix,) = router.crew.prefixes
        assert prefix.index.block_size == 32
        assert router.crew.tokenizers is tokenizers


async def test_one_that_is_gone_runs_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(ESTIMATE, precise(), QUEUE)
        assert router.crew.match is not None
        await router.adopt(QUEUE)
        assert router.producers == {}
        assert (router.crew.prefixes, router.crew.tokenizers) == ([], [])
        assert router.crew.match is None


async def test_who_remembers_media_is_shown_as_long_as_it_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(plugin("mm-embeddings-cache-producer"), QUEUE)
        encoders = router.crew.encoders
        assert [encoder.name for encoder in encoders] == ["mm-embeddings-cache-producer"]
        await router.adopt(QUEUE)
        assert encoders == []


def original(timed: object) -> object:
    """What a timed plugin times."""
    return getattr(timed, "plugin")  # noqa: B009 - not part of what a scorer promises


async def test_a_plugin_that_remembers_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(plugin("no-hit-lru-scorer"))
        (before,) = router.parts.director.lineup.profiles["default"].scorers
        await router.adopt(plugin("no-hit-lru-scorer"), QUEUE)
        after, _ = router.parts.director.lineup.profiles["default"].scorers
        assert original(after.plugin) is original(before.plugin)
        await router.adopt(plugin("no-hit-lru-scorer", lruSize=5))
        (changed,) = router.parts.director.lineup.profiles["default"].scorers
        assert original(changed.plugin) is not original(before.plugin)


async def test_a_port_passes_from_the_one_that_leaves_to_the_one_that_comes(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    async with running(tmp_path) as router:
        await router.adopt(ESTIMATE, precise(16, zmqEndpoint=address), QUEUE)
        await router.adopt(ESTIMATE, precise(32, zmqEndpoint=address), QUEUE)
        (prefix,) = router.crew.prefixes
        assert prefix.index.block_size == 32


async def test_what_cannot_start_leaves_everything_as_it_was(tmp_path: Path) -> None:
    port = free_port()
    blocker: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = blocker.socket(zmq.SUB)
    socket.bind(f"tcp://127.0.0.1:{port}")
    try:
        async with running(tmp_path) as router:
            mine = f"tcp://127.0.0.1:{free_port()}"
            await router.adopt(ESTIMATE, precise(16, zmqEndpoint=mine), QUEUE)
            lineup, before = router.parts.director.lineup, router.crew.prefixes[0]
            taken = precise(16, zmqEndpoint=f"tcp://127.0.0.1:{port}")
            with pytest.raises(StartError, match="cannot bind"):
                await router.adopt(ESTIMATE, taken, QUEUE)
            assert router.parts.director.lineup is lineup
            assert router.crew.prefixes == [before]
            assert isinstance(before, PrecisePrefix)
            with pytest.raises(zmq.ZMQError):
                socket.bind(mine)
    finally:
        blocker.destroy(linger=0)


async def test_what_says_where_endpoints_run_states_it(tmp_path: Path) -> None:
    async with running(tmp_path) as router:
        await router.adopt(plugin("topology-extractor", rack="example.com/rack"), QUEUE)
        (producer,) = router.parts.director.lineup.producers
        facts = Facts()
        await producer.produce(make.request(), (), facts)
        stated = facts.get(TopologyLabels, "topology-extractor")
        assert stated == TopologyLabels(rack="example.com/rack")
        assert producer.decided(make.request(), facts, make.decision()) is None


async def test_a_configuration_that_names_the_endpoints_may_name_others(tmp_path: Path) -> None:
    def discovery(name: str) -> dict[str, Any]:
        path = tmp_path / name
        entry = {"name": name, "address": "10.0.0.1", "port": 8000}
        path.write_bytes(msgspec.json.encode({"endpoints": [entry]}))
        return {
            "plugins": [QUEUE, plugin("file-discovery", path=str(path))],
            "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
        }

    async with running(tmp_path, configured=discovery("first")) as router:
        found, pool = router.parts.discovery, router.parts.pool
        await found.load()
        assert [e.name for e in pool.snapshot()] == ["first"]
        await router.crew.adopt(load(msgspec.json.encode(HEAD | discovery("second")).decode()))
        await found._look()
        assert [e.name for e in pool.snapshot()] == ["second"]
        with pytest.raises(StartError, match="names them no more"):
            await router.adopt(QUEUE)
