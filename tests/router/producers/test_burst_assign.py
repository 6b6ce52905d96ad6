from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.producers.burst_assign import Names, Replica, assign
from router.producers.burst_parameters import BurstPrefixParameters

A = (1, 2, 3, 4)
B = (5, 6)
C = (1, 2, 9)


def assigned(
    prompts: list[Names],
    replicas: str = "xyz",
    running: dict[str, float] | None = None,
    **given: Any,
) -> str:
    """One letter a prompt; a dot for one that goes anywhere."""
    known = [Replica(r, (running or {}).get(r, 0.0)) for r in replicas]
    answer = assign(prompts, known, msgspec.convert(given, BurstPrefixParameters))
    return "".join(address or "." for address in answer)


@pytest.mark.parametrize(
    ("prompts", "given", "answer"),
    [
        pytest.param([A, A, A], {}, "xxx", id="one-prompt-one-endpoint"),
        pytest.param([A, B, A, B], {}, "xyxy", id="each-group-its-own"),
        pytest.param([A, B, C], {}, "...", id="single-ones-go-anywhere"),
        pytest.param([(), ()], {}, "..", id="no-prompt"),
        pytest.param([B, B, A, A], {}, "yyxx", id="longer-prompts-first"),
        pytest.param([A] * 5, {"maxPerReplica": 2}, "xxyyz", id="spills-when-full"),
        pytest.param([A] * 7, {"maxPerReplica": 2}, "xxyyzzx", id="more-than-all-may-take"),
        pytest.param(
            # Fair is ceil(4 / 3) = 2 requests.
            [A, C, B, (1, 2, 8), (1, 2, 7)],
            {"minColocateBlocks": 2},
            "xx.yy",
            id="shared-first-blocks",
        ),
        pytest.param([A, C, B], {"minColocateBlocks": 3}, "...", id="too-few-shared"),
        pytest.param(
            # Fair is ceil(4 / 3) = 2 requests: the group has them, the single one goes elsewhere.
            [A, A, A, C],
            {"minColocateBlocks": 2},
            "xxxy",
            id="no-more-than-a-fair-share",
        ),
        pytest.param(
            # By requests the 2nd and 3rd unit would go to y and z, and the 4th to x.
            # Blocks: x 4, then y 2, z 2; the 4th unit (1 block) goes to y.
            [A, A, B, B, (7, 8), (7, 8), (9,), (9,)],
            {"balanceBy": "tokens"},
            "xxyyzzyy",
            id="by-blocks",
        ),
        pytest.param(
            [A, A, B, B, (7, 8), (7, 8), (9,), (9,)],
            {"balanceBy": "requests"},
            "xxyyzzxx",
            id="by-requests",
        ),
    ],
)
def test_shared_prompts_go_together(
    prompts: list[Names], given: dict[str, Any], answer: str
) -> None:
    assert assigned(prompts, **given) == answer


def test_between_equal_endpoints_the_one_that_computes_less_is_taken() -> None:
    assert assigned([A, A], running={"x": 3, "y": 1, "z": 2}) == "yy"


def test_without_endpoints_nobody_is_assigned() -> None:
    assert assigned([A, A], replicas="") == ".."


def test_blocks_that_lie_there_already_cost_nothing() -> None:
    # x has A (4 blocks). C shares 2 of its 3 with it: there it costs 1 more, under the fair share
    # of ceil((4 + 3) / 2) = 4 only if that is not reached: it is, so C goes to y.
    prompts: list[Names] = [A, A, C, C]
    assert assigned(prompts, "xy", balanceBy="tokens", minColocateBlocks=2) == "xxyy"


PROMPTS = st.lists(st.lists(st.integers(0, 2), max_size=4).map(tuple), max_size=30)


@given(
    PROMPTS,
    st.sampled_from(["x", "xy", "xyz"]),
    st.sampled_from([-1, 1, 2]),
    st.integers(0, 2),
    st.sampled_from(["requests", "tokens"]),
)
def test_whoever_shares_a_prompt_is_placed_and_nobody_gets_more_than_allowed(
    lists: list[tuple[int, ...]], replicas: str, limit: int, least: int, balance: str
) -> None:
    # A block's name depends on everything before it.
    prompts = [tuple(hash(p[: i + 1]) for i in range(len(p))) for p in lists]
    answer = assigned(
        prompts, replicas, maxPerReplica=limit, minColocateBlocks=least, balanceBy=balance
    )
    assert len(answer) == len(prompts)
    groups = Counter(prompts)
    for prompt, count in groups.items():
        places = Counter(a for p, a in zip(prompts, answer, strict=True) if p == prompt)
        if not prompt or (count == 1 and not least):
            assert places == {".": count}
        elif count > 1:
            assert "." not in places
            if limit == -1:
                assert len(places) == 1
            elif count <= limit * len(replicas):
                assert max(places.values()) <= limit
