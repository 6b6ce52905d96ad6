"""The producers that run and what runs beside them, as the configuration in force says. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import zmq

from router.config.load import Config
from router.config.motor_schema import Motor
from router.lineup import Lineup
from router.producers.encoder_cache import EncoderCache
from router.producers.inflight import InFlightLoad
from router.producers.prefix import PrecisePrefix
from router.producers.tokens import Backend
from router.request.parsers import apis
from router.scheduling.types import Profile
from router.telemetry.match import Matcher
from warmroute.builder import Member
from warmroute.conducting import Conducting
from warmroute.errors import StartError
from warmroute.event_follower import EventFollower
from warmroute.parts import Parts
from warmroute.polling import Polling
from warmroute.snapshots import Snapshots, of_router

RELEASE_S = 2.0
"""How long a socket that was closed may take to free its port."""


class _Side:
    """What runs beside one member."""

    def __init__(self) -> None:
        self.follower: EventFollower | None = None
        self.snapshots: Snapshots | None = None
        self.tasks: list[asyncio.Task[None]] = []


class Crew:
    """Starts and stops what a configuration's producers need.

    The lists are changed in place: whoever shows them shows what runs now.

    Attributes:
        tokenizers: Where token ids come from.
        prefixes: Who follows events.
        loads: Who counts requests.
        encoders: Who remembers media.
        polling: Reads what engines say of themselves.
        match: Answers questions about prompts; None where nobody follows events.
    """

    def __init__(
        self, parts: Parts, context: zmq.Context[zmq.Socket[bytes]], group: asyncio.TaskGroup
    ) -> None:
        self.tokenizers: list[Backend] = []
        self.prefixes: list[PrecisePrefix] = []
        self.loads: list[InFlightLoad] = []
        self.encoders: list[EncoderCache] = []
        self.match: Matcher | None = None
        self._parts = parts
        self._context = context
        self._group = group
        self._sides: dict[Member, _Side] = {}
        self._motor: Motor | None = None
        self._conducting: Conducting | None = None
        self.polling = Polling(parts.pool, group, parts.options.metrics_interval_s)

    async def adopt(self, config: Config) -> None:
        """Let a configuration take effect from the next request on.

        Raises StartError, and then everything goes on as before.
        """
        if self._parts.options.endpoints_configured and config.discovery is None:
            raise StartError("no endpoints: dataLayer.discovery names them no more")
        self.polling.prepared(config.data)
        members = self._parts.builder.members(config, self._sides)
        gone = [member for member in self._sides if member not in members]
        came = [member for member in members if member not in self._sides]
        # What leaves goes first: it may hold the port that what comes wants.
        await self._end_conducting(config.motor, members)
        for member in gone:
            self._stop(member)
        try:
            for member in came:
                await self._start(member, patient=bool(gone))
            await self._conduct(config.motor, members)
        except StartError:
            for member in [member for member in came if member in self._sides]:
                self._stop(member)
            for member in gone:
                await self._start(member, patient=True)
            await self._conduct(self._motor, self._sides)
            raise
        self._motor = config.motor
        self.polling.adopt(config.data)
        if self._parts.options.endpoints_configured and config.discovery is not None:
            discovery = config.discovery
            self._parts.discovery.follow(discovery.path, watch_file=discovery.watch_file)
        self._show(members)
        profiles = self._parts.timed(config.profiles)
        self._parts.director.lineup = _lineup(config, profiles, members)
        self._parts.config = config

    def tick(self) -> None:
        """What changes with time."""
        endpoints = self._parts.pool.snapshot()
        for prefix in self.prefixes:
            prefix.tick(endpoints)

    async def save(self) -> None:
        """Keep what the next router can go on with."""
        for side in self._sides.values():
            if side.snapshots is not None:
                await side.snapshots.save()

    async def close(self) -> None:
        """Stop everything."""
        await self._end_conducting(None, ())
        self.polling.close()
        for member in list(self._sides):
            self._stop(member)

    async def _start(self, member: Member, *, patient: bool) -> None:
        """Raises StartError; with `patient` not before a port had time to become free."""
        side = _Side()
        if member.prefix is not None:
            give_up_at = asyncio.get_running_loop().time() + (RELEASE_S if patient else 0.0)
            await self._follow(member.prefix, side, give_up_at)
        if member.backend is not None:
            side.tasks.append(self._group.create_task(member.backend.run()))
        if member.listener is not None:
            self._parts.pool.listen(member.listener)
        self._sides[member] = side

    async def _follow(self, prefix: PrecisePrefix, side: _Side, give_up_at: float) -> None:
        pool, options = self._parts.pool, self._parts.options
        kept = None if options.state_dir is None else of_router(options.state_dir, prefix, pool)
        while side.follower is None:
            try:
                side.follower = EventFollower(self._context, prefix, pool)
            except StartError:
                if asyncio.get_running_loop().time() >= give_up_at:
                    raise
                await asyncio.sleep(RELEASE_S / 100)
        pool.listen(side.follower)
        side.tasks.append(self._group.create_task(side.follower.polls.run()))
        if kept is not None:
            side.snapshots = kept
            kept.restore()
            side.tasks.append(self._group.create_task(kept.run(options.state_interval_s)))

    async def _end_conducting(self, motor: Motor | None, members: Iterable[Member]) -> None:
        """Unless the same would be started again."""
        if self._conducting is not None and self._conducting.made_of != (motor, _index_of(members)):
            await self._conducting.stop()
            self._conducting = None

    async def _conduct(self, motor: Motor | None, members: Iterable[Member]) -> None:
        """Serve the conductor's API if the configuration asks for it. Raises StartError."""
        member = next((m for m in members if m.prefix is not None), None)
        side = self._sides.get(member) if member is not None else None
        if self._conducting is not None or motor is None or side is None:
            return
        if member is not None and member.prefix is not None and side.follower is not None:
            conducting = Conducting(
                motor,
                member.prefix,
                side.follower,
                self._parts.pool,
                self._context,
                self._parts.options,
                side.snapshots,
            )
            await conducting.start(self._group)
            self._conducting = conducting

    def _stop(self, member: Member) -> None:
        side = self._sides.pop(member)
        for task in side.tasks:
            task.cancel()
        if member.listener is not None:
            self._parts.pool.unlisten(member.listener)
        if side.follower is not None:
            self._parts.pool.unlisten(side.follower)
            side.follower.close()

    def _show(self, members: Iterable[Member]) -> None:
        members = list(members)
        self.tokenizers[:] = [m.backend for m in members if m.backend is not None]
        self.prefixes[:] = [m.prefix for m in members if m.prefix is not None]
        self.loads[:] = [m.load for m in members if m.load is not None]
        producers = [member.producer for member in members]
        self.encoders[:] = [p for p in producers if isinstance(p, EncoderCache)]
        if self.prefixes:
            self.match = Matcher(producers, self.prefixes[0], self._parts.pool.snapshot)
        else:
            self.match = None


def _index_of(members: Iterable[Member]) -> PrecisePrefix | None:
    return next((member.prefix for member in members if member.prefix is not None), None)


def _lineup(config: Config, profiles: Mapping[str, Profile], members: Iterable[Member]) -> Lineup:
    return Lineup(
        profiles=profiles,
        handler=config.handler,
        producers=[member.producer for member in members],
        followers=config.followers,
        admitters=config.admission.admitters,
        answerers=config.answerers,
        apis=apis([parser.value for parser in config.parsers]),
    )
