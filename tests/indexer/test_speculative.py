"""Guesses: laws about tickets, and the engine's last word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder
from indexer.holders import HolderBits
from indexer.speculative import GuessStats, Speculative
from tests.indexer.make import E1, E2

A, B, C = 101, 102, 103


def _guessed(layer: Speculative, bits: HolderBits, holder: Holder) -> set[int]:
    return {block for block, mask in layer.masks.items() if mask & bits.find(holder)}


def test_a_guess_lives_until_its_ticket_expires() -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    layer.record(E1, [A, B], expires_at=2.0)
    layer.expire(1.9)
    assert _guessed(layer, bits, E1) == {A, B}
    assert _guessed(layer, bits, E2) == set()
    layer.expire(2.0)
    assert layer.masks == {}
    assert layer.outstanding() == 0


def test_one_tickets_end_leaves_what_another_holds() -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    first = layer.record(E1, [A, B], 2.0)
    layer.record(E1, [A], 3.0)
    layer.withdraw(first)
    assert _guessed(layer, bits, E1) == {A}
    layer.expire(3.0)
    assert layer.masks == {}


def test_the_latest_expiry_wins() -> None:
    layer = Speculative(HolderBits())
    ticket = layer.record(E1, [A], 2.0)
    layer.extend(ticket, 5.0)
    layer.extend(ticket, 3.0)
    layer.expire(4.9)
    assert A in layer.masks
    layer.expire(5.0)
    assert A not in layer.masks


def test_an_ended_ticket_can_neither_be_extended_nor_withdrawn() -> None:
    layer = Speculative(HolderBits())
    ticket = layer.record(E1, [A], 1.0)
    layer.expire(1.0)
    layer.extend(ticket, 9.0)
    layer.withdraw(ticket)
    assert layer.masks == {}
    assert layer.stats == GuessStats(recorded=1, expired=1)


def test_a_removal_overrules_the_guess_of_that_holder_only() -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    for holder in (E1, E2):
        layer.record(holder, [A, B], 2.0)
    layer.overrule(E1, [A])
    assert _guessed(layer, bits, E1) == {B}
    assert _guessed(layer, bits, E2) == {A, B}


def test_a_ticket_cannot_end_a_guess_that_came_after_its_own_was_overruled() -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    old = layer.record(E1, [A], 2.0)
    layer.overrule(E1, [A])
    layer.record(E1, [A], 9.0)
    layer.withdraw(old)
    assert _guessed(layer, bits, E1) == {A}


def test_a_store_confirms_for_all_tickets() -> None:
    layer = Speculative(HolderBits())
    layer.record(E1, [A, B], 2.0)
    layer.record(E1, [A], 2.0)
    layer.confirm(E1, [A, C])
    layer.expire(2.0)
    assert layer.stats == GuessStats(recorded=3, confirmed=2, expired=1)


def test_a_forgotten_holder_has_no_guesses_and_its_tickets_are_void() -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    ticket = layer.record(E1, [A, B], 2.0)
    layer.record(E2, [A], 2.0)
    layer.forget(E1)
    bits.retire(E1)
    assert layer.masks == {A: bits.find(E2)}
    layer.record(E1, [A], 5.0)
    layer.withdraw(ticket)
    assert _guessed(layer, bits, E1) == {A}
    assert layer.stats.overruled == 2


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("record"),
            st.sampled_from([E1, E2]),
            st.lists(st.sampled_from([A, B, C]), max_size=4),
            st.integers(0, 20),
        ),
        st.tuples(st.sampled_from(["extend", "withdraw"]), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(
            st.sampled_from(["confirm", "overrule"]),
            st.sampled_from([E1, E2]),
            st.lists(st.sampled_from([A, B, C]), max_size=2),
        ),
        st.tuples(st.just("forget"), st.sampled_from([E1, E2])),
        st.tuples(st.just("expire"), st.integers(0, 20)),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(OPERATIONS)
def test_agrees_with_a_list_of_guesses_and_loses_none_from_its_counts(
    operations: list[tuple[object, ...]],
) -> None:
    bits = HolderBits()
    layer = Speculative(bits)
    tickets = []
    alive: dict[int, tuple[Holder, set[int], float]] = {}
    for operation in operations:
        match operation:
            case ("record", Holder() as holder, list() as blocks, int(at)):
                ticket = layer.record(holder, blocks, at)
                tickets.append(ticket)
                alive[ticket.number] = (holder, set(blocks), at)
            case ("extend", int(which), int(at)) if which < len(tickets):
                layer.extend(tickets[which], at)
                if tickets[which].number in alive:
                    holder, left, before = alive[tickets[which].number]
                    alive[tickets[which].number] = (holder, left, max(before, at))
            case ("withdraw", int(which), _) if which < len(tickets):
                layer.withdraw(tickets[which])
                alive.pop(tickets[which].number, None)
            case ("confirm" | "overrule" as word, Holder() as holder, list() as blocks):
                (layer.confirm if word == "confirm" else layer.overrule)(holder, blocks)
                for owner, left, _ in alive.values():
                    if owner == holder:
                        left.difference_update(blocks)
            case ("forget", Holder() as holder):
                layer.forget(holder)
                alive = {n: ticket for n, ticket in alive.items() if ticket[0] != holder}
            case ("expire", int(now)):
                layer.expire(now)
                alive = {n: ticket for n, ticket in alive.items() if ticket[2] > now}
            case _:  # a ticket that was not written yet
                pass
    for holder in (E1, E2):
        expected = {b for owner, left, _ in alive.values() if owner == holder for b in left}
        assert _guessed(layer, bits, holder) == expected
    stats = layer.stats
    ended = stats.confirmed + stats.expired + stats.withdrawn + stats.overruled
    assert stats.recorded - ended == sum(len(left) for _, left, _ in alive.values())
    layer.expire(99)
    assert layer.masks == {}
    assert (layer.outstanding(), layer._guesses, layer._open) == (0, {}, {})


def test_the_age_of_what_is_confirmed_is_added_up_for_each_ticket() -> None:
    layer = Speculative(HolderBits())
    layer.expire(10.0)
    layer.record(E1, [A, B], 99.0)
    layer.expire(11.0)
    layer.record(E1, [A], 99.0)
    layer.expire(12.5)
    layer.confirm(E1, iter([A, C]))
    assert (layer.stats.confirmed, layer.stats.confirmed_age_s) == (2, 2.5 + 1.5)


def test_each_holder_has_counts_of_its_own_until_it_is_forgotten() -> None:
    layer = Speculative(HolderBits())
    layer.record(E1, [A, B], 2.0)
    ticket = layer.record(E2, [A, B, C], 9.0)
    layer.confirm(E1, [A])
    layer.expire(3.0)
    layer.overrule(E2, [C])
    layer.withdraw(ticket)
    first, second = layer.by_holder[E1], layer.by_holder[E2]
    assert (first.recorded, first.confirmed, first.expired) == (2, 1, 1)
    assert (second.recorded, second.overruled, second.withdrawn) == (3, 1, 2)
    layer.forget(E1)
    layer.forget(E2)
    layer.withdraw(ticket)
    assert layer.by_holder == {}
    assert layer.stats.recorded == 5
