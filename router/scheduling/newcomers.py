"""Endpoints that just came, or came back with an empty cache, are sent work step by step.

By load such an endpoint looks better than any other until it has as much to do as they have. Until
then it would be sent every prompt that is cached nowhere, faster than it can compute them. So for a
while it is shown to fewer than half of the requests, as long as there are others to pick; requests
whose prefix it holds see it always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, PrefixMatch

WARM_UP_S = 10.0
"""How long an endpoint counts as a newcomer: until its scrapes tell what it was sent."""

SHOWN = 0.4
"""Share of the requests that see a newcomer: below a half, so that by chance it stays so."""


class Newcomers:
    """Follows a pool as its listener; asked before every pick."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives Unix time, as facts have it."""
        self._clock = clock
        self._came: dict[str, float] = {}

    def added(self, endpoint: Endpoint) -> None:
        """It came."""
        self._came[endpoint.address] = self._clock()

    def removed(self, endpoint: Endpoint) -> None:
        """It went."""
        self._came.pop(endpoint.address, None)

    def died(self, endpoint: Endpoint) -> None:
        """It is no candidate meanwhile."""

    def revived(self, endpoint: Endpoint) -> None:
        """Its cache is what it was, or else it restarted."""

    def changed(self, endpoint: Endpoint) -> None:
        """Its labels say nothing of its cache."""

    def restarted(self, endpoint: Endpoint) -> None:
        """Its cache is empty again."""
        self._came[endpoint.address] = self._clock()

    def held_back(self, endpoints: Sequence[Endpoint], facts: Facts) -> frozenset[str]:
        """Newcomers that one request is not to see. Where all are new, all are alike."""
        if not self._came:
            return frozenset()
        since = facts.now - WARM_UP_S
        self._came = {address: at for address, at in self._came.items() if at > since}
        new = [e.address for e in endpoints if e.address in self._came]
        if len(new) == len(endpoints):
            return frozenset()
        match = facts.get(PrefixMatch)
        held = match.held if match else {}
        return frozenset(a for a in new if a not in held and facts.rng.random() >= SHOWN)
