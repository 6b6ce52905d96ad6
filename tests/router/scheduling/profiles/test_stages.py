from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import NoEndpoints, RouterError, Saturated
from router.pool.endpoint import Endpoint, Role
from router.producers.facts import Facts, KeptOut
from router.request.types import Kind, Request
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.profiles.stages import StageHandler
from router.scheduling.types import Decision, Profile
from tests.router.scheduling.profiles import stage_pool
from tests.support import make

ALWAYS = AlwaysDisaggPdDecider()
PD = StageHandler(prefill_decider=ALWAYS)
EPD = StageHandler(prefill_decider=ALWAYS, encode_decider=ALWAYS)


class Asked(msgspec.Struct):
    """A decider that notes about whom it is asked."""

    answer: bool = True
    about: list[str | None] = []

    def disaggregates(self, request: Request, endpoint: Endpoint | None, facts: Facts) -> bool:
        self.about.append(endpoint.address if endpoint else None)
        return self.answer


def decide(
    handler: StageHandler,
    *,
    profiles: Mapping[str, Profile] | None = None,
    facts: Facts | None = None,
    **roles: str,
) -> Decision:
    return handler.decide(
        make.request(),
        profiles or stage_pool.profiles(),
        stage_pool.endpoints(**roles),
        facts or Facts(),
        random.Random(0),
    )


def test_decode_answers_and_the_prefill_endpoint_goes_into_a_header() -> None:
    decision = decide(PD, p1="prefill", p2="prefill", d1="decode")
    assert decision.endpoint.address == "d1:1"
    assert decision.headers == {"x-prefiller-host-port": "p1:1"}
    assert decision.addresses == ("d1:1",)
    assert [e.address for e in decision.holders] == ["d1:1", "p1:1"]
    assert decision.kind == "prefill-decode"


def test_all_encode_endpoints_go_into_a_header_with_commas() -> None:
    decision = decide(EPD, e1="encode", e2="encode", p1="prefill", d1="decode")
    assert decision.headers == {
        "x-prefiller-host-port": "p1:1",
        "x-encoder-hosts-ports": "e1:1,e2:1",
    }
    assert decision.kind == "encode-prefill-decode"


@pytest.mark.parametrize("order", ["decode-first", "prefill-first"])
def test_encoding_alone_needs_no_prefill_profile(order: str) -> None:
    profiles = stage_pool.profiles()
    del profiles["prefill"]
    handler = StageHandler(encode_decider=ALWAYS, prefill_first=order == "prefill-first")
    decision = decide(handler, profiles=profiles, e1="encode", d1="both")
    assert decision.headers == {"x-encoder-hosts-ports": "e1:1"}
    assert decision.kind == "encode-decode"


def test_a_decider_that_says_no_leaves_everything_to_decode() -> None:
    decider = Asked(False)
    decision = decide(StageHandler(prefill_decider=decider), p1="prefill", d1="decode")
    assert (decision.headers, decision.kind) == ({}, "decode-only")
    assert decider.about == ["d1:1"]


def test_a_stage_without_a_decider_never_runs() -> None:
    assert decide(StageHandler(), p1="prefill", e1="encode", d1="decode").kind == "decode-only"


def test_prefill_first_asks_nobody_about_prefill_and_about_no_endpoint_for_encode() -> None:
    decider = Asked()
    handler = StageHandler(prefill_first=True, encode_decider=decider)
    decision = decide(handler, e1="encode", p1="prefill", d1="decode")
    assert decision.kind == "encode-prefill-decode"
    assert decider.about == [None]


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (False, {"decode": [None], "encode": ["d1:1"], "prefill": ["d1:1"]}),
        (True, {"decode": ["p1:1"], "encode": ["p1:1"], "prefill": [None]}),
    ],
    ids=["decode-first", "prefill-first"],
)
def test_later_stages_are_told_of_the_first_pick(first: bool, told: Mapping[str, Any]) -> None:
    profiles = stage_pool.profiles()
    handler = msgspec.structs.replace(EPD, prefill_first=first)
    decide(handler, profiles=profiles, e1="encode", p1="prefill", d1="decode")
    assert {name: stage_pool.peers(profiles[name]) for name in told} == told


def test_one_endpoint_for_both_stages_prefills_for_itself() -> None:
    decision = decide(PD, b1="both", d1="decode")
    assert decision.endpoint.address == "b1:1"
    assert (decision.headers, decision.kind) == ({}, "decode-only")


@pytest.mark.parametrize("first", [False, True], ids=["decode-first", "prefill-first"])
@pytest.mark.parametrize(
    ("roles", "stage"),
    [
        ({"d1": "decode", "e1": "encode"}, "prefill"),
        ({"d1": "decode", "p1": "prefill"}, "encode"),
        ({"p1": "prefill", "e1": "encode"}, "decode"),
    ],
)
def test_a_stage_that_has_nobody_is_a_refusal_that_names_it(
    roles: dict[str, Any], stage: str, first: bool
) -> None:
    handler = msgspec.structs.replace(EPD, prefill_first=first)
    with pytest.raises(NoEndpoints) as refused:
        decide(handler, **roles)
    assert refused.value.stage == stage


def test_a_stage_that_is_too_busy_keeps_its_status() -> None:
    profiles = stage_pool.profiles()
    profiles["prefill"] = stage_pool.profile("prefill", stage_pool.PREFILL, busy=True)
    with pytest.raises(Saturated):
        decide(PD, profiles=profiles, p1="prefill", d1="decode")


@pytest.mark.parametrize("first", [False, True], ids=["decode-first", "prefill-first"])
@pytest.mark.parametrize("missing", ["p1", "e1"])
def test_the_fallback_answers_alone_where_a_wanted_stage_has_nobody(
    missing: str, first: bool
) -> None:
    handler = msgspec.structs.replace(EPD, fallback="any", prefill_first=first)
    roles: dict[str, Any] = {"d1": "decode", "e1": "encode", "p1": "prefill"}
    del roles[missing]
    decision = decide(handler, **roles)
    assert decision.primary.profile == "any"
    assert (decision.prefill, decision.encode, decision.headers) == (None, None, {})
    assert decision.kind == "fallback"


def test_the_fallback_does_not_stand_in_for_decode() -> None:
    with pytest.raises(NoEndpoints):
        decide(msgspec.structs.replace(PD, fallback="any"), p1="prefill")


def test_prefill_endpoints_that_failed_are_left_alone_while_others_exist() -> None:
    facts = Facts()
    facts.put(KeptOut(prefill=frozenset({"p1:1"})))
    decision = decide(PD, facts=facts, p1="prefill", p2="prefill", d1="decode")
    assert decision.headers == {"x-prefiller-host-port": "p2:1"}
    decision = decide(PD, facts=facts, p1="prefill", d1="decode")
    assert decision.headers == {"x-prefiller-host-port": "p1:1"}


def test_decode_ranks_behind_one_port_are_named_in_a_header() -> None:
    decision = decide(StageHandler(primary_port=8000), d1="decode")
    assert decision.addresses == ("d1:8000",)
    assert decision.headers == {"x-data-parallel-host-port": "d1:1"}


def test_it_says_which_profiles_may_run_and_what_its_deciders_need() -> None:
    assert set(StageHandler().runs()) == {"decode"}
    assert set(EPD.runs()) == {"decode", "prefill", "encode"}
    assert set(StageHandler(prefill_first=True, fallback="any").runs()) == {
        "decode",
        "prefill",
        "any",
    }
    assert EPD.needs() == ()


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/chat/completions", "prefill-decode"),
        ("POST", "/v1/messages/", "prefill-decode"),
        ("POST", "/v1/embeddings", "decode-only"),
        ("POST", "/v1/completions/render", "decode-only"),
        ("GET", "/v1/models", "decode-only"),
        ("GET", "/v1/responses", "decode-only"),
    ],
)
@pytest.mark.parametrize("first", [False, True], ids=["decode-first", "prefill-first"])
def test_only_requests_that_have_a_prompt_have_stages(
    method: str, path: str, kind: str, first: bool
) -> None:
    request = make.request(kind=Kind.OTHER, path=path, headers={":method": method})
    handler = StageHandler(prefill_decider=ALWAYS, prefill_first=first)
    pool = stage_pool.endpoints(p1="prefill", d1="decode")
    rng = random.Random(0)
    decision = handler.decide(request, stage_pool.profiles(), pool, Facts(), rng)
    assert decision.kind == kind


@given(
    roles=st.dictionaries(
        st.sampled_from("abcdefg"), st.sampled_from([r.value for r in Role]), max_size=6
    ),
    answers=st.tuples(st.booleans(), st.booleans()),
    first=st.booleans(),
    seed=st.integers(),
)
def test_every_pick_serves_its_stage_and_equal_inputs_give_equal_decisions(
    roles: dict[str, str], answers: tuple[bool, bool], first: bool, seed: int
) -> None:
    handler = StageHandler(
        prefill_first=first, prefill_decider=Asked(answers[0]), encode_decider=Asked(answers[1])
    )
    pool = stage_pool.endpoints(**roles)

    def once() -> Decision | type[RouterError]:
        rng = random.Random(seed)
        try:
            return handler.decide(make.request(), stage_pool.profiles(), pool, Facts(), rng)
        except RouterError as error:
            return type(error)

    decision = once()
    assert once() == decision
    if not isinstance(decision, Decision):
        return
    assert decision.endpoint.role in stage_pool.DECODE
    assert decision.prefill is None or decision.prefill.endpoint.role in stage_pool.PREFILL
    assert decision.encode is None or decision.encode.endpoint.role in stage_pool.ENCODE
    assert ("x-prefiller-host-port" in decision.headers) == (decision.prefill is not None)
    assert ("x-encoder-hosts-ports" in decision.headers) == (decision.encode is not None)
