"""mm-embeddings-cache-scorer: prefer the endpoint that has the prompt's media encoded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import EncoderCacheMatch, Facts
from router.request.types import Request


class MmEmbeddingsCacheScorer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """score = weight of the media it has / weight of all there is; 0 without media.

    Attributes:
        producer_name: Producer whose match counts; empty: the only one there is.
    """

    producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((EncoderCacheMatch, self.producer_name),)

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        match = facts.get(EncoderCacheMatch, self.producer_name)
        if match is None or match.total <= 0:
            return [0.0] * len(endpoints)
        return [match.matched.get(e.address, 0.0) / match.total for e in endpoints]
