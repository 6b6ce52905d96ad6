"""Bits: who has which, and when one may be used again."""

from __future__ import annotations

from indexer.block import Holder
from indexer.holders import HolderBits, single_bits
from tests.indexer.make import E1, E2, E3


def test_each_holder_keeps_a_bit_of_its_own() -> None:
    bits = HolderBits()
    assert [bits.bit(holder) for holder in (E1, E2, E1)] == [1, 2, 1]
    assert bits.find(E3) == 0
    assert bits.alive == bits.credited == 3
    assert len(bits) == 2
    assert bits.holders() == (E1, E2)


def test_a_retired_bit_counts_no_more_and_comes_back_only_after_recycling() -> None:
    bits = HolderBits()
    old = bits.bit(E1)
    bits.retire(E1)
    assert (bits.alive, bits.credited, bits.retired) == (0, 0, old)
    assert bits.bit(E1) != old
    assert bits.bit(E2) != old
    bits.recycle(old)
    assert bits.retired == 0
    assert bits.bit(E3) == old


def test_retiring_an_unknown_holder_does_nothing() -> None:
    bits = HolderBits()
    bits.retire(E1)
    assert bits.retired == 0


def test_a_suspended_holder_is_alive_and_not_credited() -> None:
    bits = HolderBits()
    bit = bits.bit(E1)
    bits.suspend(E1)
    assert (bits.alive, bits.credited) == (bit, 0)
    bits.resume(E1)
    assert bits.credited == bit


def test_suspension_outlives_the_bit() -> None:
    bits = HolderBits()
    bits.suspend(E1)
    bit = bits.bit(E1)
    assert not bits.credited & bit
    bits.retire(E1)
    assert not bits.credited & bits.bit(E1)


def test_decodes_masks_and_follows_changes() -> None:
    bits = HolderBits()
    both = bits.bit(E1) | bits.bit(E2)
    assert bits.decode(both) == (E1, E2)
    old = bits.find(E1)
    bits.retire(E1)
    bits.recycle(old)
    assert bits.bit(E3) == old
    assert bits.decode(both) == (E3, E2)


def test_decoded_masks_do_not_pile_up() -> None:
    bits = HolderBits()
    for rank in range(12):
        bits.bit(Holder("a", rank))
    for mask in range(1, 1 << 12):
        assert len(bits.decode(mask)) == mask.bit_count()
    assert len(bits._decoded) <= 1024


def test_splits_a_mask_into_its_bits() -> None:
    assert single_bits(0b10110) == [0b10, 0b100, 0b10000]
    assert single_bits(0) == []
