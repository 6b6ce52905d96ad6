"""What is known at the moment of a decision, looked up by type.

A producer states facts, a filter or scorer asks for them: `facts.get(PrefixMatch, name)`. `name` is
the producer's instance name; empty means the first producer that stated such a fact.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from router.pool.endpoint import Endpoint

_F = TypeVar("_F")

_NOTHING: Mapping[str, int] = {}


class MediaItem(msgspec.Struct, frozen=True):
    """An image, a video or a sound inside a prompt.

    Attributes:
        name: Hash of its content, as engines announce it.
        offset: First token it stands for.
        length: Tokens it stands for.
        modality: image, video or audio, or whatever it is told to be.
    """

    name: str
    offset: int
    length: int
    modality: str = ""


class Tokens(msgspec.Struct, frozen=True):
    """The prompt as the engine will see it.

    Attributes:
        ids: Little-endian u32 each.
        media: What lies on placeholder tokens, by offset.
        partial: The prompt goes on, in a way that cannot be known here.
    """

    ids: bytes
    media: Sequence[MediaItem] = ()
    partial: bool = False

    @property
    def count(self) -> int:
        """Tokens of the prompt, or of its beginning."""
        return len(self.ids) // 4


class Untokenized(msgspec.Struct, frozen=True):
    """Why the prompt's tokens are not known, in a word."""

    reason: str


class HeldPrefix(msgspec.Struct, frozen=True):
    """How much of the prompt one endpoint holds.

    Attributes:
        blocks: Leading blocks confirmed by the engine's events, without a gap; or as many as are
            estimated, where no events are read.
        tiers: Those per tier, each block in its best one; they sum to `blocks`.
        speculative: Leading blocks when guesses count too; at least `blocks`.
        weighted: Leading blocks weighted by tier; guesses weigh 1.
    """

    blocks: int
    tiers: Mapping[str, int]
    speculative: int
    weighted: float


class PrefixMatch(msgspec.Struct, frozen=True):
    """Who holds the prompt's prefix.

    Attributes:
        total_blocks: Full blocks of the prompt.
        block_size: Tokens per block.
        held: Endpoint address -> what it holds; absent means nothing.
        ranks: Endpoint address -> the rank that holds it; absent means rank 0.
    """

    total_blocks: int
    block_size: int
    held: Mapping[str, HeldPrefix]
    ranks: Mapping[str, int] = {}


class InFlight(msgspec.Struct, frozen=True):
    """Requests this router has sent and whose responses have not ended.

    Attributes:
        requests: Endpoint address -> count; absent means none.
        tokens: Endpoint address -> tokens they still have to compute; absent means none.
        held: Endpoint address -> tokens of their prompts, computed or not; absent means none.
    """

    requests: Mapping[str, int]
    tokens: Mapping[str, int] = _NOTHING
    held: Mapping[str, int] = _NOTHING


class Uncached(msgspec.Struct, frozen=True):
    """What the request would cost.

    Attributes:
        tokens: Endpoint address -> tokens of the prompt it would have to compute.
    """

    tokens: Mapping[str, int]


class EncoderCacheMatch(msgspec.Struct, frozen=True):
    """Who has the request's images, videos and sounds encoded already.

    Attributes:
        matched: Endpoint address -> weight of the items it has; absent means none.
        total: Weight of all items.
    """

    matched: Mapping[str, float]
    total: float


class Peer(msgspec.Struct, frozen=True):
    """The endpoint that another stage of the same request was given.

    Stated while the endpoints of the remaining stages are picked.
    """

    endpoint: Endpoint


class KeptOut(msgspec.Struct, frozen=True):
    """Addresses that are picked only where a profile has nobody else: their answers failed.

    Attributes:
        addresses: For every stage.
        prefill: For the prefill stage only.
    """

    addresses: frozenset[str] = frozenset()
    prefill: frozenset[str] = frozenset()


class HeldBack(msgspec.Struct, frozen=True):
    """Addresses that are picked only where filters leave nobody else: they just came."""

    addresses: frozenset[str]


class SessionId(msgspec.Struct, frozen=True):
    """Which session of a client the request belongs to, in the client's words."""

    value: str


class FairnessId(msgspec.Struct, frozen=True):
    """On whose account the request goes."""

    value: str


class Facts:
    """The facts of one request.

    Attributes:
        rng: Where plugins that choose by chance draw from.
        now: Unix time of the decision, as scrapes have it.
    """

    def __init__(self, rng: random.Random | None = None, now: float = 0.0) -> None:
        self.rng = rng or random.Random(0)
        self.now = now
        self._facts: dict[tuple[type, str], Any] = {}

    def put(self, fact: object, producer: str = "") -> None:
        """State a fact in a producer's name."""
        self._facts[type(fact), producer] = fact
        self._facts.setdefault((type(fact), ""), fact)

    def producer_of(self, kind: type) -> str:
        """Name of the producer whose fact of that type counts where none is named; else empty."""
        first = self._facts.get((kind, ""))
        return next((n for (_, n), fact in self._facts.items() if n and fact is first), "")

    def also(self, fact: object) -> Facts:
        """These facts and one more, which overrides one of its type."""
        more = Facts(self.rng, self.now)
        more._facts = {**self._facts, (type(fact), ""): fact}
        return more

    def get(self, kind: type[_F], producer: str = "") -> _F | None:
        """The fact of that type, or None where nobody could state it."""
        fact: _F | None = self._facts.get((kind, producer))
        return fact
