from __future__ import annotations

import pytest

from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abc"]


def test_the_score_is_the_share_of_blocks_held() -> None:
    facts = make.facts(total_blocks=8, a=make.held(2), b=make.held(8))
    assert PrefixCacheScorer().score(make.request(), ENDPOINTS, facts) == [0.25, 1.0, 0.0]


def test_guesses_and_tier_weights_count_through_the_weighted_sum() -> None:
    facts = make.facts(total_blocks=4, a=make.held(0, speculative=4), b=make.held(4, weighted=3.2))
    assert PrefixCacheScorer().score(make.request(), ENDPOINTS, facts) == [1.0, 0.8, 0.0]


def test_matched_length_can_be_weighed_in() -> None:
    facts = make.facts(total_blocks=64, block_size=16, a=make.held(32))
    scorer = PrefixCacheScorer(match_length_weight=0.5, match_length_scale_tokens=1024)
    # 512 matched tokens are half of the scale: 0.5 * 0.5**2 + 0.5 * 32/64.
    assert scorer.score(make.request(), ENDPOINTS, facts)[0] == pytest.approx(0.375)


@pytest.mark.parametrize("facts", [make.facts(), make.facts(in_flight={})], ids=["none", "others"])
def test_nobody_is_preferred_without_a_match(facts: object) -> None:
    assert PrefixCacheScorer().score(make.request(), ENDPOINTS, facts) == [0.0] * 3  # type: ignore[arg-type]


def test_only_the_named_producer_counts() -> None:
    facts = make.facts(total_blocks=8, a=make.held(8))
    scorer = PrefixCacheScorer(prefix_match_info_producer_name="another")
    assert scorer.score(make.request(), ENDPOINTS, facts) == [0.0, 0.0, 0.0]
