"""What a connector gets and what it answers."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from pd_sidecar.allow import Address
from pd_sidecar.bodies import Fields

Headers = tuple[tuple[str, str], ...]


class Outcome(enum.StrEnum):
    """What became of a prefill.

    OK         the decode engine answers from the handed-over cache
    REFUSED    the prefill engine found fault with the request: its answer is the answer
    FAILED     it could not be reached, took too long or answered 5xx
    NO_CACHE   it answered, and handed no cache over
    NOT_TAKEN  the decode engine could not take the cache over
    UNNEEDED   the decode engine had enough of the prompt in its own cache
    """

    OK = "ok"
    REFUSED = "refused"
    FAILED = "failed"
    NO_CACHE = "no_cache"
    NOT_TAKEN = "not_taken"
    UNNEEDED = "unneeded"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose prompt is to be prefilled elsewhere.

    Attributes:
        api: One of `bodies.PATHS`.
        target: Path and query as the client sent them.
        headers: What engines get besides the length; the request's id is among them.
        body: The client's bytes.
        fields: The same, read.
        prefiller: The engine to prefill at; None: the decode engine itself.
        rank: Rank of the decode engine.
    """

    api: str
    target: str
    headers: Headers
    body: bytes
    fields: Fields
    prefiller: Address | None = None
    rank: int = 0


class Whole(msgspec.Struct, frozen=True):
    """An answer that was read to its end."""

    status: int
    headers: Headers
    body: bytes


class Reply(msgspec.Struct, frozen=True):
    """An answer that has begun.

    Attributes:
        chunks: Its body as it comes; raises Unreachable where it breaks off.
    """

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]


class Answer(msgspec.Struct, frozen=True):
    """What the client gets.

    Attributes:
        cached_tokens: What the prefill engine had in its cache; None: the reply's usage is right.
    """

    reply: Reply
    outcome: Outcome
    cached_tokens: int | None = None


class Engines(Protocol):
    """The engines, as connectors reach them. All raise Unreachable."""

    async def encode(self, call: Call, encoder: Address, body: bytes) -> Whole:
        """An encoder's answer."""
        ...

    async def prefill(self, call: Call, body: bytes) -> Whole:
        """The prefill engine's answer; the call names it."""
        ...

    def decode(self, call: Call, body: bytes) -> AbstractAsyncContextManager[Reply]:
        """The decode engine's answer, once it has begun."""
        ...


class Connector(Protocol):
    """One way to hand a cache over."""

    def answer(self, call: Call) -> AbstractAsyncContextManager[Answer]:
        """Raises Unreachable where even the decode engine gives no answer."""
        ...
