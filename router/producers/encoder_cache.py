"""mm-embeddings-cache-producer: who has probably encoded the request's media before.

What was sent to an endpoint lately is taken to be in its encoder's cache. An item weighs the tokens
it stands for, or 1 where the prompt's tokens do not tell; in a request twice, it counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.approx_index import ApproxIndex, Sent
from router.producers.facts import EncoderCacheMatch, Facts, Tokens
from router.request.media_parts import media_names
from router.request.types import Request
from router.scheduling.types import Decision

ITEM_MB = 2
"""What an encoded item is taken to need; llm-d's assumption."""


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


class EncoderCache:
    """States EncoderCacheMatch, for requests with media.

    Attributes:
        index: To be told of endpoints that go or restart.
    """

    def __init__(self, name: str, parameters: EncoderCacheParameters) -> None:
        self.name = name
        self._capacity = parameters.cache_size_in_mb_per_server // ITEM_MB
        self.index: ApproxIndex[str] = ApproxIndex()

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        weights = _weights(request, facts)
        if not weights:
            return
        matched: dict[str, float] = {}
        for name, weight in weights.items():
            for address in self.index.holders(name):
                matched[address] = matched.get(address, 0.0) + weight
        facts.put(EncoderCacheMatch(matched, sum(weights.values())), self.name)
        facts.put(_Items(tuple(weights)), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Sent[str] | None:
        items = facts.get(_Items, self.name)
        if items is None:
            return None
        sent = Sent(self.index, decision, items.names)
        for address in _encoders(decision):
            sent.sent(address, self._capacity)
        return sent


def _weights(request: Request, facts: Facts) -> Mapping[str, float]:
    """Item -> its weight."""
    tokens = facts.get(Tokens)
    if tokens is not None and tokens.media:
        return {item.name: float(max(item.length, 1)) for item in tokens.media}
    return dict.fromkeys(media_names(request), 1.0)


def _encoders(decision: Decision) -> Sequence[str]:
    """Where the media are encoded: a stage of its own, or where the prompt is computed."""
    if decision.encode is not None:
        return [target.address for target in decision.encode.targets]
    return [decision.holders[-1].address]
