"""Traits: known by holder, and masks of the bits that the holders have."""

from __future__ import annotations

from indexer.groups import Need
from indexer.traits import Traits
from tests.indexer.make import E1, E2

WINDOW, STATE = Need(1, 1, 2), Need(2, 4, 1)
ONE, TWO, FRESH = 0b01, 0b10, 0b100


def test_holders_with_equal_needs_share_a_mask() -> None:
    traits = Traits()
    assert traits.plain
    traits.set_needs(E1, ONE, [WINDOW, STATE], headless=False)
    traits.set_needs(E2, TWO, [WINDOW], headless=True)
    assert traits.needing == {WINDOW: ONE | TWO, STATE: ONE}
    assert traits.headless == TWO
    assert not traits.plain


def test_needs_replace_earlier_ones() -> None:
    traits = Traits()
    traits.set_needs(E1, ONE, [WINDOW], headless=True)
    traits.set_needs(E1, ONE, [STATE], headless=False)
    assert (traits.needing, traits.headless) == ({STATE: ONE}, 0)


def test_a_holder_keeps_its_traits_with_a_fresh_bit_until_it_is_forgotten() -> None:
    traits = Traits()
    traits.set_needs(E1, ONE, [WINDOW], headless=False)
    traits.set_grain(E1, ONE, 4)
    traits.set_shared(E1, ONE)
    traits.retire(ONE)
    assert traits.plain
    assert traits.grains == {}
    traits.admit(E1, FRESH)
    assert (traits.needing, traits.grains, traits.shared) == ({WINDOW: FRESH}, {4: FRESH}, FRESH)
    traits.retire(FRESH)
    traits.forget(E1)
    traits.admit(E1, ONE)
    assert traits.plain
    assert (traits.grain(E1), traits.is_shared(E1), traits.lenders()) == (1, False, [])


def test_what_is_known_before_there_is_a_bit_waits_for_it() -> None:
    traits = Traits()
    traits.set_shared(E1, 0)
    assert traits.plain
    assert (traits.is_shared(E1), traits.lenders()) == (True, [E1])
    traits.admit(E1, ONE)
    assert traits.shared == ONE
