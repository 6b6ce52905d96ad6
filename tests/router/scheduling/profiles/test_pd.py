from __future__ import annotations

import pytest

from router.producers.facts import PrefixMatch
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.profiles.pd import PdProfileHandler
from router.scheduling.profiles.stages import StageProfiles

DECIDER = PrefixBasedPdDecider(non_cached_tokens=16)


def test_it_is_a_handler_of_two_stages_with_a_decider() -> None:
    handler = PdProfileHandler(decode_profile="d", prefill_profile="p", primary_port=8000)
    assert handler.decider_names() == {"deciderPluginName": "prefix-based-pd-decider"}
    assert handler.profile_names(()) == {"decodeProfile": "d", "prefillProfile": "p"}
    linked = handler.link({"deciderPluginName": DECIDER})
    assert linked.stages == StageProfiles(decode="d", prefill="p")
    assert (linked.prefill_decider, linked.encode_decider) == (DECIDER, None)
    assert (linked.primary_port, linked.prefill_first) == (8000, False)


@pytest.mark.parametrize(("own", "read"), [("", "precise"), ("approx", "approx")])
def test_its_producer_counts_where_the_decider_names_none(own: str, read: str) -> None:
    handler = PdProfileHandler(prefix_match_info_producer_name="precise")
    decider = PrefixBasedPdDecider(prefix_match_info_producer_name=own)
    linked = handler.link({"deciderPluginName": decider})
    assert (PrefixMatch, read) in linked.needs()
