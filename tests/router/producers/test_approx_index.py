from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from router.producers.approx_index import ApproxIndex, Sent
from tests.support import make

ADDRESSES = st.sampled_from("abcd")
PROMPTS = st.lists(st.integers(0, 5), max_size=6, unique=True).map(tuple)


class Model(RuleBasedStateMachine):
    """The index beside plain lists of what each endpoint was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.index: ApproxIndex[int] = ApproxIndex()
        self.kept: dict[str, list[list[int]]] = {a: [] for a in "abcd"}

    @rule(address=ADDRESSES, prompt=PROMPTS, capacity=st.integers(1, 6))
    def sent(self, address: str, prompt: Sequence[int], capacity: int) -> None:
        self.index.sent(address, prompt, capacity)
        kept = self.kept[address]
        for name in reversed(prompt):
            found = next((entry for entry in kept if entry[0] == name), [name, 0])
            if found in kept:
                kept.remove(found)
            kept.append([name, found[1] + 1])
        del kept[:-capacity]

    @rule(address=ADDRESSES, prompt=PROMPTS)
    def failed(self, address: str, prompt: Sequence[int]) -> None:
        self.index.failed(address, prompt)
        for entry in self.kept[address]:
            entry[1] -= entry[0] in prompt
        self.kept[address] = [entry for entry in self.kept[address] if entry[1]]

    @rule(address=ADDRESSES)
    def restarted(self, address: str) -> None:
        self.index.restarted(make.endpoint(address))
        self.kept[address] = []

    @invariant()
    def knows_who_holds_what(self) -> None:
        names = {address: {name for name, _ in kept} for address, kept in self.kept.items()}
        assert len(self.index) == len(set().union(*names.values()))
        for address, held in names.items():
            assert self.index.kept(address) == len(held)
        for name in range(6):
            holding = {address for address, held in names.items() if name in held}
            assert set(self.index.holders(name)) == holding

    @rule(prompt=PROMPTS)
    def reaches(self, prompt: Sequence[int]) -> None:
        reach: dict[str, int] = {}
        for address, kept in self.kept.items():
            held = {name for name, _ in kept}
            depth = next((i for i, n in enumerate(prompt) if n not in held), len(prompt))
            if depth:
                reach[address] = depth
        assert self.index.reach(prompt) == reach


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_gap_ends_what_an_endpoint_is_credited_with() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    index.sent("a", (1, 2, 3, 4), 10)
    index.sent("b", (1, 2), 10)
    index.sent("c", (2, 3, 4), 10)
    assert index.reach((1, 2, 3, 4)) == {"a": 4, "b": 2}
    assert index.reach((9, 1)) == {}
    assert index.reach(()) == {}


@given(st.lists(st.tuples(ADDRESSES, PROMPTS), max_size=20), st.integers(1, 8))
def test_of_an_endpoint_no_more_is_kept_than_it_can_hold(
    sent: list[tuple[str, Sequence[int]]], capacity: int
) -> None:
    index: ApproxIndex[int] = ApproxIndex()
    for address, prompt in sent:
        index.sent(address, prompt, capacity)
        assert index.kept(address) <= capacity


def test_of_a_prompt_that_does_not_fit_the_first_blocks_stay() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    index.sent("a", (1, 2, 3, 4), 2)
    assert index.reach((1, 2, 3, 4)) == {"a": 2}


def test_bits_of_endpoints_that_went_are_used_again() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    for i in range(100):
        index.sent(f"e{i}", (1,), 10)
        index.removed(make.endpoint(f"e{i}"))
    index.sent("a", (1,), 10)
    assert index._caches["a"].bit == 1
    assert list(index.holders(1)) == ["a"]


@pytest.mark.parametrize(
    ("told", "left"),
    [
        pytest.param(("responded 200", "ended"), 2, id="answered"),
        pytest.param(("responded 400", "ended"), 0, id="refused"),
        pytest.param(("responded 503", "ended"), 0, id="failed"),
        pytest.param(("ended",), 0, id="abandoned"),
    ],
)
def test_a_request_that_failed_leaves_nothing_behind(told: tuple[str, ...], left: int) -> None:
    index: ApproxIndex[int] = ApproxIndex()
    lease = Sent(index, make.decision("a"), (1, 2))
    lease.sent("a", 10)
    for word in told:
        if word == "ended":
            lease.ended()
        else:
            lease.responded(int(word.split()[1]))
    assert index.kept("a") == left


def test_a_failure_takes_nothing_that_another_request_was_sent_with() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    index.sent("a", (1, 2), 10)
    lease = Sent(index, make.decision("a"), (1, 2, 3))
    lease.sent("a", 10)
    lease.ended()
    assert index.reach((1, 2, 3)) == {"a": 2}


def test_who_answers_instead_has_it_and_the_first_pick_has_not() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    lease = Sent(index, make.decision("a", prefill="p"), (1, 2))
    for address in "ap":
        lease.sent(address, 10)
    lease.served_by("b")
    lease.responded(200)
    lease.ended()
    assert index.reach((1, 2)) == {"b": 2, "p": 2}


def test_what_is_computed_in_another_stage_stays_there_whoever_answers() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    lease = Sent(index, make.decision("a"), (1, 2))
    lease.sent("e", 10)
    lease.served_by("b")
    assert index.reach((1, 2)) == {"e": 2}


def test_a_prefill_that_failed_leaves_the_prompt_where_it_is_answered() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    lease = Sent(index, make.decision("a", prefill="p"), (1, 2))
    for address in "ap":
        lease.sent(address, 10)
    lease.prefill_failed()
    lease.responded(200)
    lease.ended()
    assert index.reach((1, 2)) == {"a": 2}


def test_a_prompt_that_is_computed_where_it_is_answered_has_no_prefill_to_fail() -> None:
    index: ApproxIndex[int] = ApproxIndex()
    lease = Sent(index, make.decision("a"), (1, 2))
    lease.sent("a", 10)
    lease.prefill_failed()
    assert index.reach((1, 2)) == {"a": 2}
