from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.profiles.disagg import DisaggProfileHandler
from router.scheduling.profiles.stages import StageHandler, StageProfiles

YES = AlwaysDisaggPdDecider()


def handler(**parameters: Any) -> DisaggProfileHandler:
    return msgspec.convert(parameters, DisaggProfileHandler)


def linked(**parameters: Any) -> StageHandler:
    made = handler(**parameters)
    return made.link(dict.fromkeys(made.decider_names(), YES))


def test_without_parameters_decode_alone_runs() -> None:
    assert linked() == StageHandler()
    assert handler().profile_names(()) == {"profiles.decode": "decode"}
    assert handler().decider_names() == {}


@pytest.mark.parametrize("order", ["prefill-first", "PREFILL_FIRST", "prefillFirst"])
def test_case_and_dashes_of_the_order_do_not_matter(order: str) -> None:
    assert linked(stageOrder=order).prefill_first


def test_both_styles_say_the_same() -> None:
    new = linked(
        profiles={"decode": "d", "prefill": "p", "encode": "e"},
        deciders={"prefill": "x", "encode": "y"},
    )
    old = linked(
        decodeProfile="d",
        prefillProfile="p",
        encodeProfile="e",
        prefillDeciderPluginName="x",
        encodeDeciderPluginName="y",
    )
    stages = StageProfiles(decode="d", prefill="p", encode="e")
    assert new == old == StageHandler(stages=stages, prefill_decider=YES, encode_decider=YES)


def test_names_are_known_by_the_field_they_stand_in() -> None:
    new = handler(profiles={"prefill": "p"}, deciders={"encode": "y"}, fallbackProfile="f")
    assert new.profile_names(()) == {
        "profiles.decode": "decode",
        "profiles.prefill": "p",
        "fallbackProfile": "f",
    }
    assert new.decider_names() == {"deciders.encode": "y"}
    old = handler(decodeProfile="d", deciderPluginName="x")
    assert old.profile_names(()) == {"decodeProfile": "d"}
    assert old.decider_names() == {"deciderPluginName": "x"}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"stageOrder": "encode-first"}, "expected decode-first or prefill-first"),
        ({"decodeProfile": "d", "deciders": {"prefill": "x"}}, "use one style"),
        ({"deciderPluginName": "x", "profiles": {}}, "use one style"),
        ({"deciderPluginName": "x", "prefillDeciderPluginName": "y"}, "differ"),
        ({"stageOrder": "prefill-first", "deciders": {"prefill": "x"}}, "no decider is asked"),
        ({"stageOrder": "prefill-first", "deciderPluginName": "x"}, "no decider is asked"),
        ({"decider": {}}, "unknown field"),
        ({"profiles": {"decodes": "d"}}, "unknown field"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        handler(**parameters)


def test_the_fallback_is_handed_on() -> None:
    assert linked(fallbackProfile="f").fallback == "f"
