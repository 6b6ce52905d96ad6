"""A router process without Envoy, for tests of what it knows rather than of what it routes. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.ports import free_port
from tests.support.processes import START_S, Fleet, command, process, until


@asynccontextmanager
async def router(fleet: Fleet, *flags: str) -> AsyncIterator[None]:
    """A router alone: nothing passes through it here."""
    serve = command(
        "serve",
        "--bind-address=127.0.0.1",
        f"--grpc-port={fleet.grpc_port}",
        f"--grpc-health-port={free_port()}",
        f"--metrics-port={fleet.http_port}",
        f"--endpoints={fleet.folder / 'endpoints.json'}",
        f"--tokenizer-socket={fleet.socket}",
        "--drain-timeout=0s",
        *flags,
    )
    async with process(serve, fleet.log) as running:
        fleet.processes["router"] = running
        await until(fleet.metrics_page, START_S)
        yield
