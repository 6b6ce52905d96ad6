"""BlockIndex, by example."""

from __future__ import annotations

import pytest

from indexer.block import Match
from indexer.events import Reason
from indexer.index import BlockIndex
from indexer.shelves import MAX_TIERS
from tests.indexer import make
from tests.indexer.make import E1, E2, E3

A, B, C, D = range(101, 105)


def test_counts_the_leading_blocks_of_each_holder() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 3, 4], [A, B, C, D])
    index.store(E2, "gpu", [1, 2], [A, B])
    index.store(E3, "gpu", [2], [B])
    assert index.match([A, B, C, D]) == {E1: Match(4, {"gpu": 4}, 4), E2: Match(2, {"gpu": 2}, 2)}


def test_an_empty_index_and_an_empty_prompt_match_nothing() -> None:
    index = BlockIndex(16)
    assert index.match([A]) == {}
    index.store(E1, "gpu", [1], [A])
    assert index.match([]) == {}


def test_a_gap_ends_the_match_until_it_is_filled_again() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 3], [A, B, C])
    assert index.remove(E1, "gpu", [2]) == [B]
    assert index.match([A, B, C])[E1].blocks == 1
    index.store(E1, "gpu", [2], [B])
    assert index.match([A, B, C])[E1].blocks == 3


def test_a_block_counts_once_in_its_best_tier() -> None:
    index = BlockIndex(16)
    index.store(E1, "cpu", [1, 2, 3], [A, B, C])
    index.store(E1, "gpu", [1, 3], [A, C])
    assert index.match([A, B, C])[E1] == Match(3, {"gpu": 2, "cpu": 1}, 3)
    index.remove(E1, "gpu", [1, 3])
    assert index.match([A, B, C])[E1] == Match(3, {"cpu": 3}, 3)


def test_removal_from_one_tier_leaves_the_other() -> None:
    index = BlockIndex(16)
    for tier in ("gpu", "cpu"):
        index.store(E1, tier, [1], [A])
    assert index.remove(E1, "gpu", [1]) == [A]
    assert index.match([A])[E1].tiers == {"cpu": 1}
    assert index.remove(E1, "cpu", [1]) == [A]
    assert index.match([A]) == {}


def test_announced_tiers_come_after_the_configured_ones_and_are_bounded() -> None:
    index = BlockIndex(16, tiers=("gpu", "disk", "cpu"))
    for tier in ("storage", "cpu", "disk"):
        index.store(E1, tier, [1], [A])
    assert index.match([A])[E1].tiers == {"disk": 1}
    for number in range(MAX_TIERS - 4):
        assert index.shelves.admits(f"tier-{number}")
        index.store(E1, f"tier-{number}", [1], [A])
    assert not index.shelves.admits("one more")
    assert index.shelves.admits("storage")


def test_one_removal_takes_one_copy() -> None:
    index = BlockIndex(16)
    for _ in range(3):
        index.store(E1, "gpu", [1], [A])
    assert index.remove(E1, "gpu", [1]) == []
    assert index.remove(E1, "gpu", [1]) == []
    assert index.match([A])[E1].blocks == 1
    assert index.remove(E1, "gpu", [1]) == [A]
    assert index.match([A]) == {}


def test_copies_are_not_counted_for_engines_that_announce_again() -> None:
    index = BlockIndex(16, count_repeats=False)
    for _ in range(3):
        index.store(E1, "gpu", [1], [A])
    assert index.remove(E1, "gpu", [1]) == [A]
    assert index.match([A]) == {}


def test_clearing_a_holder_resets_its_counts_and_leaves_the_others() -> None:
    index = BlockIndex(16)
    for holder in (E1, E1, E2):
        index.store(holder, "gpu", [1], [A])
    index.clear(E1)
    assert set(index.match([A])) == {E2}
    index.store(E1, "gpu", [1], [A])
    assert index.remove(E1, "gpu", [1]) == [A]


def test_a_cleared_holder_stays_cleared_while_and_after_it_is_swept() -> None:
    index = BlockIndex(16)
    chains = list(range(1000, 1100))
    index.store(E1, "gpu", list(range(100)), chains)
    index.store(E2, "gpu", list(range(100)), chains)
    index.clear(E1)
    for _ in range(1000):
        if not index.sweep(10):
            break
        assert set(index.match(chains)) == {E2}
    index.store(E3, "gpu", [0], chains[:1])  # takes over the old bit
    assert {holder: m.blocks for holder, m in index.match(chains).items()} == {E2: 100, E3: 1}


def test_sweeping_is_done_in_bounded_steps() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", list(range(100)), list(range(1000, 1100)))
    assert not index.sweep(1000)
    index.clear(E1)
    assert index.sweep(150)
    assert index.sizes()["blocks"] == 50
    assert not index.sweep(1000)
    assert set(index.sizes().values()) == {0}


def test_a_block_that_loses_its_last_holder_during_a_sweep_is_forgotten() -> None:
    index = BlockIndex(16)
    index.store(E2, "gpu", [1], [A])
    index.store(E1, "gpu", [1], [A])
    index.clear(E1)
    assert index.sweep(1)  # has looked at the name, and not at the block yet
    index.remove(E2, "gpu", [1])
    assert set(make.swept(index).sizes().values()) == {0}


def test_clearing_one_tier_leaves_the_others() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2], [A, B])
    index.store(E1, "cpu", [1], [A])
    index.store(E2, "gpu", [1, 2], [A, B])
    assert sorted(index.clear_tier(E1, "gpu")) == [A, B]
    assert index.match([A, B])[E1] == Match(1, {"cpu": 1}, 1)
    assert index.match([A, B])[E2].blocks == 2
    assert index.clear_tier(E1, "nowhere") == []
    index.clear_tier(E2, "gpu")
    index.clear_tier(E1, "cpu")
    assert set(make.swept(index).sizes().values()) == {0}


def test_engines_that_call_the_same_content_differently_keep_all_their_blocks() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2], [A, B])
    index.store(E2, "gpu", [21, 22], [A, B])
    assert index.resolve(E2, 22) == B
    assert index.match([A, B])[E2].blocks == 2
    index.remove(E1, "gpu", [1, 2])
    assert index.resolve(E1, 2) is None
    assert {holder: m.blocks for holder, m in index.match([A, B]).items()} == {E2: 2}
    index.remove(E2, "gpu", [21, 22])
    assert set(index.sizes().values()) == {0}


def test_one_name_may_mean_different_content_to_two_engines() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    index.store(E2, "gpu", [1], [B])
    assert (index.resolve(E1, 1), index.resolve(E2, 1)) == (A, B)
    assert set(index.match([A])) == {E1}
    assert set(index.match([B])) == {E2}
    assert index.remove(E2, "gpu", [1]) == [B]
    assert set(index.match([A])) == {E1}
    assert index.remove(E1, "gpu", [1]) == [A]
    assert set(index.sizes().values()) == {0}


def test_a_name_that_changes_its_meaning_withdraws_the_old_block() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    index.store(E1, "cpu", [1], [A])
    index.store(E1, "gpu", [1], [B])
    assert index.match([A]) == {}
    assert set(index.match([B])) == {E1}


def test_of_two_meanings_in_one_event_the_last_counts() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 3, 1], [A, B, C, D])
    assert index.match([A]) == {}
    assert [set(index.match([chain])) for chain in (B, C, D)] == [{E1}, {E1}, {E1}]


def test_a_holder_knows_only_the_names_of_its_own_blocks() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    assert index.resolve(E2, 1) is None
    assert index.remove(E2, "gpu", [1]) == []
    index.store(E2, "gpu", [2], [B])
    assert index.resolve(E2, 1) is None
    assert index.remove(E2, "gpu", [1]) == []
    assert set(index.match([A])) == {E1}


def test_one_content_under_two_names_is_held_until_both_are_gone() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    index.store(E1, "gpu", [2], [A])
    index.remove(E1, "gpu", [1])
    assert set(index.match([A])) == {E1}
    index.remove(E1, "gpu", [2])
    assert index.match([A]) == {}
    assert set(make.swept(index).sizes().values()) == {0}


def test_a_split_block_is_stored_and_removed_whole() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2], [A, B, C, D])
    assert index.resolve(E1, 1) == B
    assert index.resolve(E1, 2) == D
    assert index.match([A, B, C, D])[E1].blocks == 4
    assert index.remove(E1, "gpu", [2]) == [D]
    assert index.match([A, B, C, D])[E1].blocks == 2


def test_engines_with_different_block_sizes_share_blocks_and_forget_them_apart() -> None:
    for first, second in ((E1, E2), (E2, E1)):
        index = BlockIndex(16)
        split = {E1: [1], E2: [21, 22]}
        index.store(first, "gpu", split[first], [A, B])
        index.store(second, "gpu", split[second], [A, B])
        index.remove(first, "gpu", split[first])
        assert {holder: m.blocks for holder, m in index.match([A, B]).items()} == {second: 2}
        index.remove(second, "gpu", split[second])
        assert set(make.swept(index).sizes().values()) == {0}


def test_a_location_is_taken_in_for_a_block_that_is_there() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    assert index.locate(E1, "cpu", 1) is None
    assert index.locate(E2, "cpu", 1) is Reason.UNKNOWN_LOCATION
    assert index.locate(E1, "cpu", 9) is Reason.UNKNOWN_LOCATION
    index.remove(E1, "gpu", [1])
    assert index.match([A])[E1].tiers == {"cpu": 1}


def test_guesses_count_beside_and_behind_what_is_confirmed() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], [A])
    one, two = index.bits.bit(E1), index.bits.bit(E2)
    matches = index.match([A, B, C], {A: two, B: one | two})
    assert matches == {E1: Match(1, {"gpu": 1}, 2), E2: Match(0, {}, 2)}


def test_counts_what_each_holder_has() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 2], [A, B, B])
    index.store(E1, "cpu", [1], [A])
    assert index.blocks(E1) == {"gpu": 2, "cpu": 1}
    index.remove(E1, "cpu", [1])
    assert index.blocks(E1) == {"gpu": 2}
    assert index.blocks(E2) == {}


def test_many_generations_of_names_for_shared_content_do_not_pile_up() -> None:
    index = BlockIndex(16)
    chains = list(range(1000, 1020))
    index.store(E2, "gpu", list(range(20)), chains)
    for generation in range(1, 30):
        index.store(E1, "gpu", [generation * 100 + n for n in range(20)], chains)
        assert index.match(chains)[E1].blocks == 20
        index.clear(E1)
        make.swept(index)
        assert index.sizes() == {
            "blocks": 20, "names": 20, "own_names": 0, "aliases": 0, "repeats": 0,
            "claims": 0, "pieces": 0, "parked": 0,
        }  # fmt: skip


@pytest.mark.parametrize("count", [1, 3, 4, 64])
def test_events_of_any_length_store_the_same(count: int) -> None:
    index = BlockIndex(16)
    names, chains = list(range(64)), list(range(1000, 1064))
    for at in range(0, 64, count):
        index.store(E1, "gpu", names[at : at + count], chains[at : at + count])
    assert index.match(chains)[E1].blocks == 64
    assert index.blocks(E1) == {"gpu": 64}
    assert sorted(index.remove(E1, "gpu", names)) == chains
    assert set(index.sizes().values()) == {0}
