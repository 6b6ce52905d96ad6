"""The conductor's API over a router's own index, where a Motor configuration asks for it. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web

from indexer.conductor.conductor import Conductor
from indexer.conductor.http import application
from indexer.conductor.service import ConductorService
from indexer.feed import Source
from indexer.prefix_index import PrefixIndex
from indexer.sockets import Context
from router.config.motor_schema import Motor
from router.pool.pool import Pool
from router.producers.pool_fleet import PoolFleet
from router.producers.prefix import PrecisePrefix
from warmroute.errors import StartError
from warmroute.event_follower import EventFollower
from warmroute.serve import Options
from warmroute.snapshots import Snapshots


class Conducting:
    """One API on its port, from `start` to `stop`.

    Attributes:
        made_of: What it was started for; it goes on while that stays the same.
    """

    def __init__(
        self,
        motor: Motor,
        prefix: PrecisePrefix,
        follower: EventFollower,
        pool: Pool,
        context: Context,
        options: Options,
        kept: Snapshots | None = None,
    ) -> None:
        self.made_of = (motor, prefix)
        self._motor = motor
        self._prefix = prefix
        self._follower = follower
        self._options = options
        self._kept = kept
        index = prefix.index
        self._conductor = Conductor(self._new_index, index, PoolFleet(pool, index, motor))
        self._service = ConductorService(
            self._conductor, context, options.state_dir, follow_first=follower.sync, first=index
        )
        self._runner = web.AppRunner(application(self._service), access_log=None)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, group: asyncio.TaskGroup) -> None:
        """Open the port. Raises StartError."""
        self._prefix.registered = self._sources
        self._service.restore()
        if self._kept is not None:
            self._kept.restore()  # of the engines that are registered, whose streams are open now
        await self._runner.setup()
        host, port = self._options.bind_address, self._motor.port
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self.stop()
            reason = error.strerror or str(error)
            raise StartError(f"http_server_port: {host}:{port} cannot be used: {reason}") from error
        self._tasks.append(group.create_task(self._service.run()))
        if self._motor.look_again_s:
            self._tasks.append(group.create_task(self._look_again()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._prefix.registered = tuple
        await self._runner.cleanup()
        self._service.close()

    async def _look_again(self) -> None:
        """Try streams again that could not be opened; what is open stays, and what it brought."""
        while True:
            await asyncio.sleep(self._motor.look_again_s)
            self._follower.sync()
            self._service.sync()

    def _sources(self) -> Iterable[Source]:
        return self._conductor.sources(self._prefix.index.block_size)

    def _new_index(self, block_size: int) -> PrefixIndex:
        bounds = self._prefix.bounds
        return PrefixIndex(
            block_size,
            pools=True,
            index_bytes=bounds.index_bytes,
            index_bytes_per_endpoint=bounds.index_bytes_per_endpoint,
        )
