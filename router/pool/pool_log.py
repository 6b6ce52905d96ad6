"""PoolLog: who joins, leaves, dies and restarts, one line each in the log. IO."""

from __future__ import annotations

import structlog

from router.pool.endpoint import Endpoint

log = structlog.get_logger()


class PoolLog:
    """A listener of the pool."""

    def added(self, endpoint: Endpoint) -> None:
        log.info("endpoint.added", endpoint=endpoint.address, name=endpoint.name)

    def removed(self, endpoint: Endpoint) -> None:
        log.info("endpoint.removed", endpoint=endpoint.address, name=endpoint.name)

    def changed(self, endpoint: Endpoint) -> None:
        log.info("endpoint.changed", endpoint=endpoint.address, name=endpoint.name)

    def restarted(self, endpoint: Endpoint) -> None:
        log.warning("endpoint.restarted", endpoint=endpoint.address, name=endpoint.name)

    def died(self, endpoint: Endpoint) -> None:
        log.warning("endpoint.died", endpoint=endpoint.address, name=endpoint.name)

    def revived(self, endpoint: Endpoint) -> None:
        log.info("endpoint.revived", endpoint=endpoint.address, name=endpoint.name)
