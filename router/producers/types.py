"""What a producer promises: facts before the decision, and a memory of what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.types import Decision


class Lease(Protocol):
    """What a producer keeps for one request in flight.

    All methods are called without awaiting; `ended` exactly once, whatever happens.
    """

    def served_by(self, address: str) -> None:
        """Not the endpoint of the decision answers but another one of the pool. Comes first."""
        ...

    def responded(self, status: int) -> None:
        """The engine's response headers came."""
        ...

    def ended(self) -> None:
        """The exchange is over: answered, failed or abandoned."""
        ...


@runtime_checkable
class PrefillLease(Protocol):
    """A lease that also cares for the endpoint that was to compute the prompt."""

    def prefill_failed(self) -> None:
        """It did not. Called before `responded`."""
        ...


class Follower(Protocol):
    """Is told of every pick: a producer, or a scorer, filter or handler that remembers."""

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        """The request goes where `decision` says. Called without awaiting after the pick."""
        ...


@runtime_checkable
class Amender(Follower, Protocol):
    """Adds to what the engine or the client is told, once it is known who is picked."""

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        """The decision with more headers. Called without awaiting after the pick."""
        ...


class Producer(Follower, Protocol):
    """States facts about a request.

    Attributes:
        name: Instance name.
    """

    name: str

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        """Put facts. What cannot be known is left out and counted; never raises for that."""
        ...
