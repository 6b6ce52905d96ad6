from __future__ import annotations

import msgspec
import pytest

from router.producers.prefix_parameters import PrecisePrefixParameters
from router.scheduling.scorers.precise_prefix_cache import PrecisePrefixScorerParameters
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer


def test_it_takes_what_its_producer_takes_and_a_pool_of_tokenizers() -> None:
    given = {
        "speculativeIndexing": True,
        "indexerConfig": {
            "kvCacheBackendConfigs": [{"name": "gpu", "weight": 1.0}],
            "tokenizersPoolConfig": {"uds": {"socketFile": "/s"}},
        },
    }
    parameters = msgspec.convert(given, PrecisePrefixScorerParameters)
    assert isinstance(parameters, PrecisePrefixParameters)
    assert parameters.speculative_indexing
    assert parameters.weights == {"gpu": 1.0}
    assert parameters.build() == PrefixCacheScorer()


def test_the_producer_itself_has_no_pool_of_tokenizers() -> None:
    with pytest.raises(msgspec.ValidationError, match="tokenizersPoolConfig"):
        msgspec.convert({"indexerConfig": {"tokenizersPoolConfig": {}}}, PrecisePrefixParameters)
