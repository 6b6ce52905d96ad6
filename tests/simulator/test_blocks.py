from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simulator.blocks import Block, PrefixCache
from simulator.hashing import Adapter, Hasher, Identity
from simulator.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event

HASHER = Hasher(2)


def fill(cache: PrefixCache, tokens: list[int], identity: Identity | None = None) -> list[Block]:
    """Serve a prompt: reuse, take what is missing, store what is full. The blocks stay held."""
    identity = identity or Identity()
    digests = HASHER.chain(tokens, identity)
    reused = cache.lookup(digests, len(tokens))
    blocks = [*reused, *cache.take(reused, -(-len(tokens) // 2) - len(reused))]
    cache.store(blocks, digests, tokens, len(reused), identity)
    return blocks


def served(cache: PrefixCache, tokens: list[int]) -> None:
    cache.release(fill(cache, tokens))


def reusable(cache: PrefixCache, tokens: list[int]) -> int:
    return len(cache.lookup(HASHER.chain(tokens, Identity()), len(tokens)))


def kinds(events: tuple[Event, ...]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_one_block_is_never_handed_out() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    assert len(cache.take((), 3)) == 3
    assert cache.free_blocks == 0
    with pytest.raises(ValueError, match="1 blocks asked for, 0 free"):
        cache.take((), 1)


def test_usage_counts_held_blocks_and_not_cached_ones() -> None:
    cache = PrefixCache(num_blocks=5, block_size=2)
    blocks = fill(cache, [1, 2, 3])
    assert cache.usage == 0.5
    cache.release(blocks)
    assert cache.usage == 0.0


def test_the_last_token_is_always_computed() -> None:
    cache = PrefixCache(num_blocks=9, block_size=2)
    served(cache, [1, 2, 3, 4])
    assert reusable(cache, [1, 2, 3, 4]) == 1
    assert reusable(cache, [1, 2, 3, 4, 5]) == 2


def test_reuse_ends_at_the_first_block_that_is_gone() -> None:
    cache = PrefixCache(num_blocks=9, block_size=2)
    served(cache, [1, 2, 3, 4])
    assert reusable(cache, [1, 2, 9, 9, 3, 4, 0]) == 1
    assert reusable(cache, [9, 9, 3, 4, 0]) == 0


def test_a_store_names_new_blocks_only_and_the_block_before_them() -> None:
    cache = PrefixCache(num_blocks=9, block_size=2)
    served(cache, [1, 2])
    served(cache, [1, 2, 3, 4, 5, 6, 7])
    first, second = cache.drain_events()
    digests = HASHER.chain([1, 2, 3, 4, 5, 6], Identity())
    assert isinstance(first, BlockStored)
    assert isinstance(second, BlockStored)
    assert (first.parent, first.digests, first.token_ids) == (None, (digests[0],), (1, 2))
    assert (second.parent, second.token_ids) == (digests[0], (3, 4, 5, 6))
    assert second.digests == tuple(digests[1:])
    assert second.extra_keys == (None, None)


def test_a_full_hit_announces_nothing() -> None:
    cache = PrefixCache(num_blocks=9, block_size=2)
    served(cache, [1, 2, 3])
    cache.drain_events()
    served(cache, [1, 2, 3])
    assert cache.drain_events() == ()


def test_a_store_carries_the_adapter_and_the_salt() -> None:
    cache = PrefixCache(num_blocks=9, block_size=2)
    fill(cache, [1, 2, 3, 4], Identity(Adapter("sql", "/sql", 5), "salt"))
    (stored,) = cache.drain_events()
    assert isinstance(stored, BlockStored)
    assert (stored.lora_name, stored.lora_id) == ("sql", 5)
    assert stored.extra_keys == (("sql", "salt"), ("sql",))


def test_the_block_freed_longest_ago_is_evicted_first() -> None:
    cache = PrefixCache(num_blocks=3, block_size=2)
    served(cache, [1, 2])
    served(cache, [3, 4])
    served(cache, [5, 6])
    assert [reusable(cache, [first, first + 1, 0]) for first in (1, 3, 5)] == [0, 1, 1]


def test_a_hit_makes_a_block_recent() -> None:
    cache = PrefixCache(num_blocks=3, block_size=2)
    served(cache, [1, 2])
    served(cache, [3, 4])
    cache.release(cache.take(cache.lookup(HASHER.chain([1, 2], Identity()), 3), 0))
    served(cache, [5, 6])
    assert [reusable(cache, [first, first + 1, 0]) for first in (1, 3, 5)] == [1, 0, 1]


def test_the_tail_of_a_sequence_is_evicted_before_its_head() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    served(cache, [1, 2, 3, 4, 5, 6])
    fill(cache, [7, 8])
    assert reusable(cache, [1, 2, 3, 4, 5, 6, 0]) == 2


def test_blocks_without_content_are_used_before_any_cached_one() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    served(cache, [1, 2, 3])
    served(cache, [4, 5])
    cache.drain_events()
    fill(cache, [6])
    assert cache.drain_events() == ()


def test_each_eviction_is_announced_alone_and_before_the_store_that_caused_it() -> None:
    cache = PrefixCache(num_blocks=3, block_size=2)
    served(cache, [1, 2, 3, 4])
    cache.drain_events()
    served(cache, [5, 6, 7, 8])
    events = cache.drain_events()
    assert kinds(events) == ["BlockRemoved", "BlockRemoved", "BlockStored"]
    digests = HASHER.chain([1, 2, 3, 4], Identity())
    assert events[:2] == (BlockRemoved(digests[1]), BlockRemoved(digests[0]))


def test_content_can_be_reused_until_its_last_copy_is_gone() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    served(cache, [1, 2])
    served(cache, [1, 2])
    stored = kinds(cache.drain_events())
    assert stored == ["BlockStored", "BlockStored"]
    fill(cache, [3, 4, 5, 6])
    assert kinds(cache.drain_events()) == ["BlockRemoved", "BlockStored"]
    assert reusable(cache, [1, 2, 0]) == 1


def test_a_held_block_is_shared_and_outlives_its_first_holder() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    first = fill(cache, [1, 2, 3])
    second = fill(cache, [1, 2, 4])
    assert first[0] is second[0]
    cache.release(first)
    assert cache.free_blocks == 1


def test_a_reset_is_refused_while_blocks_are_held() -> None:
    cache = PrefixCache(num_blocks=4, block_size=2)
    blocks = fill(cache, [1, 2])
    cache.drain_events()
    assert not cache.reset()
    assert cache.drain_events() == ()
    cache.release(blocks)
    assert cache.reset()
    assert cache.drain_events() == (AllBlocksCleared(),)
    assert reusable(cache, [1, 2, 3]) == 0


def test_blocks_that_a_reset_emptied_are_handed_out_without_a_removal() -> None:
    cache = PrefixCache(num_blocks=3, block_size=2)
    served(cache, [1, 2, 3, 4])
    cache.reset()
    cache.drain_events()
    served(cache, [5, 6, 7, 8])
    assert kinds(cache.drain_events()) == ["BlockStored"]


def test_a_cache_of_the_null_block_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2, got 1"):
        PrefixCache(num_blocks=1, block_size=2)


class CacheLaws(RuleBasedStateMachine):
    """Any use of the cache keeps its books, and its events tell all that can be reused."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(num_blocks=8, block_size=2)
        self.held: list[list[Block]] = []
        self.announced: Counter[bytes] = Counter()

    @rule(tokens=st.lists(st.integers(0, 2), min_size=1, max_size=8))
    def serve(self, tokens: list[int]) -> None:
        digests = HASHER.chain(tokens, Identity())
        reused = self.cache.lookup(digests, len(tokens))
        missing = -(-len(tokens) // 2) - len(reused)
        if self.cache.can_take(reused, missing):
            self.held.append(fill(self.cache, tokens))
            self.hear()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        self.cache.release(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule()
    def reset(self) -> None:
        assert self.cache.reset() == (not self.held)
        self.hear()

    def hear(self) -> None:
        for event in self.cache.drain_events():
            match event:
                case BlockStored():
                    self.announced.update(event.digests)
                case BlockRemoved():
                    self.announced[event.digest] -= 1
                    assert self.announced[event.digest] >= 0
                case AllBlocksCleared():
                    self.announced.clear()

    @invariant()
    def every_block_is_either_free_or_held(self) -> None:
        held = {block.number for blocks in self.held for block in blocks}
        assert self.cache.free_blocks + len(held) == self.cache.usable_blocks

    @invariant()
    def what_is_announced_is_what_can_be_reused(self) -> None:
        for tokens in ([0, 0, 0, 0, 0], [1, 2, 0, 1, 2], [2, 2, 1, 0, 0]):
            digests = HASHER.chain(tokens, Identity())
            known = [self.announced[digest] > 0 for digest in digests] + [False]
            assert reusable(self.cache, tokens) == known.index(False)


TestCacheLaws = CacheLaws.TestCase
TestCacheLaws.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
