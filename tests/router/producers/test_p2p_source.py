from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.endpoint import Endpoint
from router.producers.facts import HeldPrefix
from router.producers.p2p_source import P2PSource, P2PSourceParameters, _fnv_32a
from router.scheduling.types import Decision
from tests.support import make

HEADER = "x-kv-cache-source-host-port"
ABC = [make.endpoint(a) for a in "abc"]


async def source(
    held: dict[str, HeldPrefix],
    decision: Decision | None = None,
    endpoints: Sequence[Endpoint] = ABC,
    request_id: str = "r1",
    **parameters: Any,
) -> str | None:
    given = {"prefixMatchInfoProducerName": "prefix", **parameters}
    producer = P2PSource("p2p", msgspec.convert(given, P2PSourceParameters))
    request, facts = make.request(id=request_id), make.facts(10, 16, None, None, **held)
    await producer.produce(request, endpoints, facts)
    chosen = decision or make.decision("a")
    assert producer.decided(request, facts, chosen) is None
    return producer.amended(request, facts, chosen).headers.get(HEADER)


@pytest.mark.parametrize(
    ("held", "parameters", "peer"),
    [
        pytest.param({"b": make.held(3)}, {}, "b", id="only-holder"),
        pytest.param({"a": make.held(3), "b": make.held(3)}, {}, None, id="no-better-than-own"),
        pytest.param({"a": make.held(2), "b": make.held(3)}, {}, "b", id="one-block-more"),
        pytest.param({}, {}, None, id="nobody-holds-any"),
        pytest.param({"b": make.held(3), "c": make.held(5)}, {}, "c", id="the-longest"),
        # 3 blocks of 16 tokens are 48, one more than 47 and one less than 49.
        pytest.param({"b": make.held(3)}, {"minCachedTokenDelta": 48}, "b", id="just-enough"),
        pytest.param({"b": make.held(3)}, {"minCachedTokenDelta": 49}, None, id="not-enough"),
        pytest.param(
            {"a": make.held(1), "b": make.held(3)},
            {"minCachedTokenDelta": 33},
            None,
            id="own-blocks-are-subtracted",
        ),
        pytest.param({"b": make.held(0, speculative=9)}, {}, None, id="a-peer's-guesses"),
        pytest.param(
            {"a": make.held(0, speculative=9), "b": make.held(5)}, {}, None, id="own-guesses"
        ),
    ],
)
async def test_a_peer_that_holds_more_is_named(
    held: dict[str, HeldPrefix], parameters: dict[str, Any], peer: str | None
) -> None:
    assert await source(held, **parameters) == peer


async def test_who_computes_the_prompt_pulls() -> None:
    held = {"p": make.held(2), "d": make.held(9), "b": make.held(5)}
    endpoints = [make.endpoint(a) for a in "pdb"]
    split = make.decision("d", prefill="p")
    assert await source(held, split, endpoints) == "d"
    assert await source(held, split, endpoints, prefillProfileName="other") is None


async def test_other_headers_of_a_decision_stay() -> None:
    producer = P2PSource("p2p", P2PSourceParameters("prefix"))
    facts = make.facts(10, 16, b=make.held(3))
    await producer.produce(make.request(), ABC, facts)
    decision = Decision(make.outcome("a"), headers={"x-prefiller-host-port": "p"})
    assert producer.amended(make.request(), facts, decision).headers == {
        "x-prefiller-host-port": "p",
        HEADER: "b",
    }


async def test_without_a_match_nothing_is_added() -> None:
    producer = P2PSource("p2p", P2PSourceParameters())
    decision = make.decision("a")
    assert producer.amended(make.request(), make.facts(), decision) is decision


async def shares(endpoints: Sequence[Endpoint], held: dict[str, HeldPrefix]) -> Counter[str | None]:
    draws = [
        await source(held, endpoints=endpoints, request_id=f"request-{i}") for i in range(3000)
    ]
    return Counter(draws)


async def test_peers_within_a_block_share_the_pulls_by_their_queues() -> None:
    # Weights 1 / (1 + waiting): b 1, c 1/2; d is two blocks behind.
    endpoints = [
        make.endpoint("a"),
        make.endpoint("b", waiting=0),
        make.endpoint("c", waiting=1),
        make.endpoint("d", waiting=0),
    ]
    held = {"b": make.held(4), "c": make.held(5), "d": make.held(3)}
    drawn = await shares(endpoints, held)
    assert set(drawn) == {"b", "c"}
    assert drawn["b"] / 3000 == pytest.approx(2 / 3, abs=0.04)


async def test_a_peer_never_scraped_does_not_win_by_looking_idle() -> None:
    endpoints = [make.endpoint("a"), make.endpoint("b", waiting=4), make.endpoint("c")]
    drawn = await shares(endpoints, {"b": make.held(4), "c": make.held(4)})
    assert drawn["b"] / 3000 == pytest.approx(1 / 2, abs=0.04)


@given(st.text(max_size=20), st.permutations("abc"))
async def test_one_request_gets_one_answer(request_id: str, order: list[str]) -> None:
    held = {"b": make.held(4), "c": make.held(4)}
    endpoints = [make.endpoint(a) for a in order]
    assert await source(held, endpoints=endpoints, request_id=request_id) == await source(
        held, request_id=request_id
    )


@pytest.mark.parametrize(
    ("text", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_the_hash_is_fnv_1a(text: bytes, value: int) -> None:
    assert _fnv_32a(text) == value
