"""Where the events of lower tiers come from: ports of ranks, or a pool that tells of all nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indexer.block import CPU, Holder
from indexer.conductor.registry import host_of, node_of
from indexer.events import PoolTold
from indexer.feed import Source
from indexer.media import DISK, LOWER
from indexer.pooling import Pooling
from router.config.motor_schema import MediaPorts
from router.pool.endpoint import Endpoint
from router.producers.event_sources import dial


class MediaSources:
    """The streams beside those of engines about their own memory."""

    def __init__(self, media: MediaPorts, pooling: Pooling) -> None:
        self._media = media
        self._pooling = pooling
        self._endpoints: Sequence[Endpoint] = ()
        self._pool = Holder(f"pool:{media.backend}")
        if media.pool is not None:
            pooling.members[self._pool] = self._members

    def follow(self, endpoints: Sequence[Endpoint]) -> Iterator[Source]:
        """All of them for these endpoints, who are told apart from now on by what they hold."""
        self._endpoints = endpoints
        elsewhere = self._elsewhere()
        for endpoint in endpoints:
            if elsewhere:
                for holder in _holders(endpoint):
                    self._pooling.elsewhere[holder] = elsewhere
            yield from self._of(endpoint)
        if self._media.pool is not None:
            yield Source(self._pool, self._media.pool, base_model="", tiers=LOWER, fixed_model=True)

    def _of(self, endpoint: Endpoint) -> Iterator[Source]:
        tiers: dict[int, list[str]] = {}
        for tier, port in ((CPU, self._media.cpu), (DISK, self._media.disk)):
            if port is not None:
                tiers.setdefault(port + endpoint.rank, []).append(tier)
        holder = Holder(endpoint.address, endpoint.rank)
        for port, told in tiers.items():
            yield Source(holder, dial(endpoint, port), tiers=tuple(told))

    def _elsewhere(self) -> frozenset[str]:
        """The tiers on which engines do not have the last word."""
        if self._media.pool is not None:
            return frozenset(LOWER)
        ports = {CPU: self._media.cpu, DISK: self._media.disk}
        return frozenset(tier for tier, port in ports.items() if port is not None)

    def _members(self, told: PoolTold) -> Sequence[Holder]:
        """The ranks on the node that an event names."""
        node = node_of(told.node)
        here = [e for e in self._endpoints if node and host_of(f"tcp://{e.address}") == node]
        found = [holder for endpoint in here for holder in _holders(endpoint)]
        exact = [holder for holder in found if holder.rank == told.rank]
        return exact or found


def _holders(endpoint: Endpoint) -> list[Holder]:
    ranks = [stream.rank for stream in endpoint.kv_events] or [endpoint.rank]
    return [Holder(endpoint.address, rank) for rank in ranks]
