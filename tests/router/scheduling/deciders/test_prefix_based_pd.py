from __future__ import annotations

import pytest

from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from tests.support import make

D = make.endpoint("d:1")


def known(tokens: int, held: HeldPrefix | None = None) -> Facts:
    """A prompt of so many tokens in blocks of 16; `held` is what d:1 has of it."""
    facts = Facts()
    facts.put(Tokens(bytes(4 * tokens)), "token-producer")
    by = {} if held is None else {"d:1": held}
    facts.put(PrefixMatch(tokens // 16, 16, by), "precise")
    return facts


@pytest.mark.parametrize(
    ("tokens", "blocks", "threshold", "prompt", "answer"),
    [
        pytest.param(100, 0, 16, 0, True, id="nothing cached: 100 >= 16"),
        pytest.param(100, 5, 20, 0, True, id="80 cached: 20 >= 20"),
        pytest.param(100, 5, 21, 0, False, id="80 cached: 20 < 21"),
        pytest.param(15, 0, 16, 0, False, id="shorter than the threshold"),
        pytest.param(100, 0, 16, 101, False, id="shorter than promptTokens"),
        pytest.param(100, 0, 16, 100, True, id="as long as promptTokens"),
        pytest.param(100_000, 0, 0, 0, False, id="a threshold of 0 means never"),
    ],
)
def test_it_counts_the_tokens_that_are_not_cached_at_the_endpoint(
    tokens: int, blocks: int, threshold: int, prompt: int, answer: bool
) -> None:
    decider = PrefixBasedPdDecider(non_cached_tokens=threshold, prompt_tokens=prompt)
    facts = known(tokens, make.held(blocks) if blocks else None)
    assert decider.disaggregates(make.request(), D, facts) is answer


def test_the_tier_of_a_block_does_not_weigh() -> None:
    facts = known(100, HeldPrefix(5, {"cpu": 5}, 5, 2.5))
    decider = PrefixBasedPdDecider(non_cached_tokens=21)
    assert not decider.disaggregates(make.request(), D, facts)


def test_a_guess_is_not_cached_yet() -> None:
    facts = known(100, make.held(0, speculative=6))
    assert PrefixBasedPdDecider(non_cached_tokens=16).disaggregates(make.request(), D, facts)


def test_what_another_endpoint_holds_does_not_count() -> None:
    decider = PrefixBasedPdDecider(non_cached_tokens=21)
    facts = known(100, make.held(5))
    assert decider.disaggregates(make.request(), make.endpoint("e:1"), facts)


def test_it_reads_the_producer_that_is_named() -> None:
    facts = known(100, make.held(5))
    facts.put(PrefixMatch(6, 16, {}), "approx")
    named = PrefixBasedPdDecider(non_cached_tokens=21, prefix_match_info_producer_name="approx")
    assert named.disaggregates(make.request(), D, facts)
    assert named.needs()[0] == (PrefixMatch, "approx")


def test_without_tokens_match_or_endpoint_the_answer_is_no() -> None:
    decider = PrefixBasedPdDecider(non_cached_tokens=1)
    tokens_only = Facts()
    tokens_only.put(Tokens(bytes(400)))
    assert not decider.disaggregates(make.request(), D, Facts())
    assert not decider.disaggregates(make.request(), D, tokens_only)
    assert not decider.disaggregates(make.request(), None, known(100))
