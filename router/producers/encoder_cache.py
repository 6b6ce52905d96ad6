"""mm-embeddings-cache-producer: who has probably encoded the request's media before.

What was sent to an endpoint lately is taken to be in its encoder's cache. An item weighs the tokens
it stands for, or 1 where the prompt's tokens do not tell; in a request twice, it counts once.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.approx_index import ApproxIndex, Sent
from router.producers.facts import EncoderCacheMatch, Facts, Tokens
from router.request.media_parts import media_parts
from router.request.types import Request
from router.scheduling.types import Decision

ITEM_MB = 2
"""What an encoded item is taken to need; llm-d's assumption."""

MODALITIES = frozenset({"image", "video", "audio"})

OTHER = "other"
"""What further modalities are called, and endpoints for which there is no room."""

MAX_HITS = 10_000
"""Endpoints come and go, each with an address of its own."""

RATIOS = tuple(n / 10 for n in range(11))
"""Upper ends of the buckets of a histogram of shares."""


class EncoderCacheParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        cache_size_in_mb_per_server: What an endpoint keeps of encoded items, at 2 MiB each.
    """

    cache_size_in_mb_per_server: Annotated[int, msgspec.Meta(ge=ITEM_MB)] = msgspec.field(
        default=4096, name="cacheSizeInMBPerServer"
    )


class _Items(msgspec.Struct, frozen=True):
    """The request's media, kept from the match to the pick."""

    names: tuple[str, ...]


class EncoderCacheStats:
    """What was looked up.

    Attributes:
        queries: Modality -> items looked up.
        hits: Endpoint address and modality -> items that it was found to have.
        ratio_sum: Shares of a request's items that an endpoint has, of all lookups and endpoints.
        ratio_buckets: How many of those lie up to each of `RATIOS`, each counted once.
    """

    def __init__(self) -> None:
        self.queries: Counter[str] = Counter()
        self.hits: Counter[tuple[str, str]] = Counter()
        self.ratio_sum = 0.0
        self.ratio_buckets = [0] * (len(RATIOS) + 1)

    def hit(self, address: str, modality: str) -> None:
        """An endpoint has an item."""
        if (address, modality) not in self.hits and len(self.hits) >= MAX_HITS:
            address = OTHER
        self.hits[address, modality] += 1

    def shares(self, found: Counter[str], items: int, endpoints: int) -> None:
        """Of so many endpoints, these have so many of a request's items; the others none."""
        self.ratio_buckets[0] += max(0, endpoints - len(found))
        for count in found.values():
            self.ratio_sum += count / items
            self.ratio_buckets[bisect.bisect_left(RATIOS, count / items)] += 1


class EncoderCache:
    """States EncoderCacheMatch, for requests with media.

    Attributes:
        index: To be told of endpoints that go or restart.
        stats: What was looked up.
    """

    def __init__(self, name: str, parameters: EncoderCacheParameters) -> None:
        self.name = name
        self._capacity = parameters.cache_size_in_mb_per_server // ITEM_MB
        self.index: ApproxIndex[str] = ApproxIndex()
        self.stats = EncoderCacheStats()

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        items = _items(request, facts)
        if not items:
            return
        matched: dict[str, float] = {}
        found: Counter[str] = Counter()
        for name, (weight, modality) in items.items():
            self.stats.queries[modality] += 1
            for address in self.index.holders(name):
                matched[address] = matched.get(address, 0.0) + weight
                found[address] += 1
                self.stats.hit(address, modality)
        self.stats.shares(found, len(items), len(endpoints))
        whole = sum(weight for weight, _ in items.values())
        facts.put(EncoderCacheMatch(matched, whole), self.name)
        facts.put(_Items(tuple(items)), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Sent[str] | None:
        items = facts.get(_Items, self.name)
        if items is None:
            return None
        sent = Sent(self.index, decision, items.names)
        for address in _encoders(decision):
            sent.sent(address, self._capacity)
        return sent


def _items(request: Request, facts: Facts) -> Mapping[str, tuple[float, str]]:
    """Item -> its weight and modality."""
    tokens = facts.get(Tokens)
    if tokens is not None and tokens.media:
        return {
            item.name: (float(max(item.length, 1)), _modality(item.modality))
            for item in tokens.media
        }
    return {name: (1.0, modality) for name, modality in media_parts(request)}


def _modality(told: str) -> str:
    return told if told in MODALITIES else OTHER


def _encoders(decision: Decision) -> Sequence[str]:
    """Where the media are encoded: a stage of its own, or where the prompt is computed."""
    if decision.encode is not None:
        return [target.address for target in decision.encode.targets]
    return [decision.holders[-1].address]
