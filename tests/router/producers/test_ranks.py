from __future__ import annotations

import msgspec
import pytest

from router.pool.endpoint import Endpoint, KvEvents
from router.producers.facts import PrefixMatch
from router.producers.ranks import UNKNOWN, guessed, wanted
from tests.support import make


def engine(*ranks: int) -> Endpoint:
    """An engine whose ranks share a port."""
    return make.endpoint(
        "e:1", kv_events=tuple(KvEvents(endpoint="tcp://e:1", rank=r) for r in ranks)
    )


TWO = engine(0, 1)


@pytest.mark.parametrize(
    ("blocks", "ranks", "named"),
    [
        pytest.param(4, {"e:1": 1}, 1, id="holds-all"),
        pytest.param(2, {"e:1": 1}, 1, id="holds-half"),
        pytest.param(1, {"e:1": 1}, None, id="holds-less"),
        pytest.param(3, {}, 0, id="the-first-rank"),
    ],
)
def test_a_rank_that_holds_half_of_the_prompt_is_named(
    blocks: int, ranks: dict[str, int], named: int | None
) -> None:
    match = PrefixMatch(4, 16, {"e:1": make.held(blocks)}, ranks)
    assert wanted(make.request(), match, TWO) == named


def test_nobody_is_named_where_nothing_is_held_or_there_is_one_rank() -> None:
    assert wanted(make.request(), PrefixMatch(4, 16, {}), TWO) is None
    match = PrefixMatch(4, 16, {"e:1": make.held(4)})
    assert wanted(make.request(), match, engine(0)) is None
    assert wanted(make.request(), match, make.endpoint("e:1")) is None


def test_the_clients_own_choice_stands() -> None:
    match = PrefixMatch(4, 16, {"e:1": make.held(4)}, {"e:1": 1})
    request = make.request(headers={"x-data-parallel-rank": "0"})
    assert wanted(request, match, TWO) is None


@pytest.mark.parametrize(
    ("decided", "asked", "rank"),
    [("1", None, 1), (None, "1", 1), ("1", "0", 1), (None, None, UNKNOWN), (None, "x", UNKNOWN)],
)
def test_a_guess_is_about_the_rank_that_is_named(
    decided: str | None, asked: str | None, rank: int
) -> None:
    name = "x-data-parallel-rank"
    headers = {} if decided is None else {name: decided}
    decision = msgspec.structs.replace(make.decision(TWO), headers=headers)
    request = make.request(headers={} if asked is None else {name: asked})
    assert guessed(request, decision) == rank


def test_an_endpoint_of_one_rank_has_that_one() -> None:
    assert guessed(make.request(), make.decision(make.endpoint("e:1", rank=3))) == 3


def test_a_guess_about_no_rank_in_particular_names_none() -> None:
    match = PrefixMatch(4, 16, {"e:1": make.held(0, speculative=4)}, {"e:1": UNKNOWN})
    assert wanted(make.request(), match, TWO) is None
