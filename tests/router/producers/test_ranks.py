from __future__ import annotations

import pytest

from router.pool.endpoint import Endpoint, KvEvents
from router.producers.facts import PrefixMatch
from router.producers.ranks import wanted
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
