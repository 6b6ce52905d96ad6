"""precise-prefix-cache-scorer: a precise-prefix-cache-producer and a prefix-cache-scorer in one.

Older configurations have it. Loading splits it: the scorer reads the producer that is declared, or
one that is made of these parameters.
"""

from __future__ import annotations

from typing import Any

from router.producers.prefix_parameters import Indexer, PrecisePrefixParameters
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer


class IndexerWithTokenizers(Indexer, frozen=True):
    """
    Attributes:
        tokenizers_pool_config: Has no effect: token-producer says where tokens come from.
    """

    tokenizers_pool_config: dict[str, Any] | None = None


class PrecisePrefixScorerParameters(PrecisePrefixParameters, frozen=True):
    """Those of the producer; they have no effect where one is declared."""

    indexer_config: IndexerWithTokenizers = IndexerWithTokenizers()

    def build(self) -> PrefixCacheScorer:
        """The scorer, before it is told whose matches to read."""
        return PrefixCacheScorer()
