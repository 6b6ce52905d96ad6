"""Requests in flight that an endpoint's figures do not show, since they were sent after the scrape.

Between two scrapes everybody reads the same figures. Without this, all that comes meanwhile follows
the smallest difference in them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.types import Decision


class Unseen(msgspec.Struct, frozen=True):
    """
    Attributes:
        sent: Endpoint address -> the requests in flight there, in order, and when they were sent.
    """

    sent: Mapping[str, dict[object, float]]

    def count(self, address: str, since: float) -> int:
        """Requests sent to an endpoint since this Unix time."""
        count = 0
        for at in reversed(self.sent.get(address, {}).values()):  # the latest first
            if at < since:
                break
            count += 1
        return count


class UnseenRequests:
    """Follows picks, and states Unseen."""

    def __init__(self) -> None:
        self._sent: dict[str, dict[object, float]] = {}

    def fact(self) -> Unseen:
        """The live mapping, not a copy: a pick follows without awaiting."""
        return Unseen(self._sent)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> _Sent:
        return _Sent(self._sent, decision.endpoint.address, facts.now)


class _Sent:
    """One request."""

    def __init__(self, sent: dict[str, dict[object, float]], address: str, at: float) -> None:
        self._sent = sent
        self._address = address
        self._at = at
        sent.setdefault(address, {})[self] = at

    def served_by(self, address: str) -> None:
        self.ended()
        self._address = address
        self._sent.setdefault(address, {})[self] = self._at

    def responded(self, status: int) -> None:
        """Its endpoint has it as before."""

    def ended(self) -> None:
        there = self._sent[self._address]
        del there[self]
        if not there:
            del self._sent[self._address]
