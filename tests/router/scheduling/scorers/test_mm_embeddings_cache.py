from __future__ import annotations

from router.producers.facts import EncoderCacheMatch
from router.scheduling.scorers.mm_embeddings_cache import MmEmbeddingsCacheScorer
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abc"]


def test_the_score_is_the_share_of_media_that_is_encoded() -> None:
    facts = make.facts()
    facts.put(EncoderCacheMatch({"a": 3.0, "b": 4.0}, 4.0), "mm")
    assert MmEmbeddingsCacheScorer().score(make.request(), ENDPOINTS, facts) == [0.75, 1.0, 0.0]
    another = MmEmbeddingsCacheScorer(producer_name="another")
    assert another.needs() == ((EncoderCacheMatch, "another"),)
    assert another.score(make.request(), ENDPOINTS, facts) == [0.0] * 3


def test_nobody_is_preferred_without_media() -> None:
    facts = make.facts()
    assert MmEmbeddingsCacheScorer().score(make.request(), ENDPOINTS, facts) == [0.0] * 3
    facts.put(EncoderCacheMatch({}, 0.0))
    assert MmEmbeddingsCacheScorer().score(make.request(), ENDPOINTS, facts) == [0.0] * 3
