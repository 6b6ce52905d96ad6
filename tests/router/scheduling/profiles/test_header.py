from __future__ import annotations

import random

import pytest

from router.errors import BadRequest
from router.producers.facts import Facts
from router.scheduling.profiles.header import HeaderProfileHandler
from tests.router.scheduling.profiles import stage_pool
from tests.support import make

POOL = stage_pool.endpoints(e1="encode", p1="prefill", d1="decode")


def picked(handler: HeaderProfileHandler, *profiles: str, **headers: str) -> str:
    known = {name: p for name, p in stage_pool.profiles().items() if name in profiles}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = make.request(headers=given)
    decision = handler.decide(request, known, POOL, Facts(), random.Random(0))
    assert decision.headers == {}
    return decision.endpoint.address


ALL = ("prefill", "encode", "decode")


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({}, "d1:1"),
        ({"epp_profile": ""}, "d1:1"),
        ({"epp_profile": "prefill"}, "p1:1"),
        ({"epp_profile": "encode"}, "e1:1"),
    ],
)
def test_the_header_names_the_profile(headers: dict[str, str], address: str) -> None:
    assert picked(HeaderProfileHandler(), *ALL, **headers) == address


def test_header_and_default_can_be_chosen_in_any_case() -> None:
    handler = HeaderProfileHandler(header_name="X-Stage", default_profile="encode")
    assert picked(handler, *ALL, x_stage="prefill") == "p1:1"
    assert picked(handler, *ALL, epp_profile="prefill") == "e1:1"


def test_an_only_profile_picks_whatever_the_header_says() -> None:
    assert picked(HeaderProfileHandler(), "prefill", epp_profile="nonsense") == "p1:1"


def test_a_name_that_no_profile_has_is_the_clients_fault() -> None:
    with pytest.raises(BadRequest, match="no profile 'decod'"):
        picked(HeaderProfileHandler(), *ALL, epp_profile="decod")


def test_the_default_must_exist_where_there_are_several() -> None:
    handler = HeaderProfileHandler()
    assert handler.profile_names(["a", "b"]) == {"defaultProfile": "decode"}
    assert handler.profile_names(["a"]) == {}
    assert handler.link({}) is handler
