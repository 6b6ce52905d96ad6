"""Keeps an index subscribed to the events of a pool's endpoints. IO."""

from __future__ import annotations

import zmq

from indexer.central import Central
from indexer.poll import Polls
from indexer.subscriber import Subscriptions
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.producers.event_sources import polled
from router.producers.prefix import PrecisePrefix
from warmroute.errors import StartError


class EventFollower:
    """Keeps one index subscribed to the pool's endpoints. A listener of the pool."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], prefix: PrecisePrefix, pool: Pool
    ) -> None:
        """Raises StartError where the address that engines connect to cannot be bound."""
        self.subscriptions = Subscriptions(context, prefix.index)
        self.polls = Polls(prefix.index)
        self._prefix = prefix
        self._pool = pool
        prefix.unusable = lambda: self.subscriptions.unusable
        prefix.zmq_errors = lambda: self.subscriptions.stats.errors
        prefix.central = prefix.open_central(pool.snapshot)
        if prefix.central is not None:
            self._bind(prefix.central)

    def added(self, endpoint: Endpoint) -> None:
        self.sync()

    def removed(self, endpoint: Endpoint) -> None:
        self.sync()
        self._prefix.index.drop_endpoint(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        self.sync()

    def restarted(self, endpoint: Endpoint) -> None:
        started = endpoint.metrics.process_start if endpoint.metrics else None
        self._prefix.index.restarted(endpoint.address, started)

    def died(self, endpoint: Endpoint) -> None:
        """Its events are read all the same."""

    def revived(self, endpoint: Endpoint) -> None:
        """Its events were read all the time."""

    def close(self) -> None:
        self.polls.close()
        self.subscriptions.close()

    def _bind(self, central: Central) -> None:
        address = self._prefix.zmq_endpoint
        try:
            self.subscriptions.bind(address, central)
        except (ValueError, zmq.ZMQError) as error:
            self.close()
            raise StartError(
                f"kvEventsConfig.zmqEndpoint: cannot bind {address}: {error}"
            ) from error

    def sync(self) -> None:
        """Read the streams that should be read, and no others."""
        self.subscriptions.sync(self._prefix.sources(self._pool.snapshot()))
        self.polls.sync(source for e in self._pool.snapshot() if (source := polled(e)))
