"""Pieces: small engine blocks fill blocks of the index, and take them away when they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.block import Identity, Match
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.hybrid_engine import name_of
from tests.indexer.make import BASE, E1

INDEX_SIZE = 4


class Followed:
    """An index of blocks of four tokens, and an engine with smaller ones."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.index = BlockIndex(INDEX_SIZE)
        self.guesses = Speculative(self.index.bits)
        self.ledger = Ledger(E1, self.index, self.guesses)

    def store(
        self,
        tokens: Sequence[int],
        start: int = 0,
        tier: str = "gpu",
        media: Mapping[int, Sequence[str]] | None = None,
    ) -> list[int]:
        """Store the blocks of a prompt from block `start` on; returns their names."""
        ends = range((start + 1) * self.size, len(tokens) + 1, self.size)
        names = [name_of(tokens[:end]) for end in ends]
        parent = name_of(tokens[: start * self.size]) if start else None
        part = tokens[start * self.size : (start + len(names)) * self.size]
        event = BlockStored(names, parent, pack(part), self.size, tier, media=media)
        self.ledger.apply(event, "tiny")
        return names

    def remove(self, name: int, tier: str = "gpu") -> None:
        self.ledger.apply(BlockRemoved([name], tier), "tiny")

    def match(
        self, tokens: Sequence[int], media: Mapping[int, Sequence[str]] | None = None
    ) -> Match | None:
        hashes = block_hashes(pack(tokens), INDEX_SIZE, root(BASE), media)
        return self.index.match(hashes, self.guesses.masks).get(E1)

    def blocks(self, tokens: Sequence[int]) -> int:
        match = self.match(tokens)
        return match.blocks if match else 0


def test_small_blocks_count_once_they_fill_a_block() -> None:
    engine = Followed(2)
    engine.store([1, 2, 3, 4, 5, 6])
    assert engine.blocks([1, 2, 3, 4, 5, 6, 7, 8]) == 1
    engine.store([1, 2, 3, 4, 5, 6, 7, 8], start=3)
    assert engine.match([1, 2, 3, 4, 5, 6, 7, 8]) == Match(2, {"gpu": 2}, 2)


@pytest.mark.parametrize("gone", range(4))
def test_any_piece_that_goes_takes_its_block_until_it_is_back(gone: int) -> None:
    engine = Followed(1)
    prompt = list(range(1, 9))
    names = engine.store(prompt)
    engine.remove(names[4 + gone])
    assert engine.blocks(prompt) == 1
    engine.store(prompt[: 5 + gone], start=4 + gone)
    assert engine.blocks(prompt) == 2
    engine.remove(names[gone])
    assert engine.blocks(prompt) == 0


def test_a_piece_in_two_blocks_takes_both() -> None:
    engine = Followed(2)
    for prompt in ([1, 2, 3, 4], [1, 2, 5, 6]):
        engine.store(prompt)
        assert engine.blocks(prompt) == 1
    engine.remove(name_of([1, 2]))
    assert engine.blocks([1, 2, 3, 4]) == 1  # the second copy is left
    engine.remove(name_of([1, 2]))
    assert engine.blocks([1, 2, 3, 4]) == engine.blocks([1, 2, 5, 6]) == 0


def test_a_block_is_in_a_tier_with_all_its_pieces() -> None:
    engine = Followed(2)
    names = engine.store([1, 2, 3, 4])
    engine.store([1, 2], tier="cpu")
    engine.remove(names[0])
    assert engine.match([1, 2, 3, 4]) is None
    engine.ledger.apply(BlockStored([names[1]], None, b"", 0, "cpu"), "tiny")
    assert engine.match([1, 2, 3, 4]) == Match(1, {"cpu": 1}, 1)
    engine.ledger.apply(AllBlocksCleared("cpu"), "tiny")
    assert engine.match([1, 2, 3, 4]) is None
    assert engine.ledger.pieces > 0
    engine.ledger.apply(AllBlocksCleared(), "tiny")
    assert engine.ledger.pieces == 0


def test_pieces_wait_for_their_parent() -> None:
    engine = Followed(1)
    prompt = list(range(1, 9))
    engine.store(prompt, start=6)
    assert engine.ledger.parked_blocks == 2
    engine.store(prompt[:6])
    assert (engine.ledger.parked_blocks, engine.blocks(prompt)) == (0, 2)


def test_a_guess_is_confirmed_and_overruled_by_pieces() -> None:
    engine = Followed(2)
    hashes = block_hashes(pack([1, 2, 3, 4]), INDEX_SIZE, root(BASE))
    engine.guesses.record(E1, hashes, 9.0)
    names = engine.store([1, 2, 3, 4])
    assert engine.guesses.stats.confirmed == 1
    engine.guesses.record(E1, hashes, 9.0)
    engine.remove(names[0])
    assert (engine.guesses.stats.overruled, engine.match([1, 2, 3, 4])) == (1, None)


def test_media_on_neighbouring_pieces_lie_on_their_block_once() -> None:
    engine = Followed(2)
    engine.store([1, 2, 3, 4], media={0: ["x"], 1: ["x", "y"]})
    assert engine.match([1, 2, 3, 4], {0: ["x", "y"]}) == Match(1, {"gpu": 1}, 1)
    assert engine.match([1, 2, 3, 4]) is None


def test_pieces_that_do_not_fit_their_block_are_left_out() -> None:
    engine = Followed(1)
    engine.store([1])
    engine.size = 2
    event = BlockStored([8, 9], name_of([1]), pack([2, 3, 4, 5]), 2)
    engine.ledger.apply(event, "tiny")
    assert engine.ledger.pieces == 2


def test_larger_blocks_continue_smaller_ones() -> None:
    engine = Followed(2)
    engine.store([1, 2, 3, 4])
    event = BlockStored([9], name_of([1, 2, 3, 4]), pack([5, 6, 7, 8]), 4, "cpu")
    engine.ledger.apply(event, "tiny")
    assert engine.match(list(range(1, 9))) == Match(2, {"gpu": 1, "cpu": 1}, 2)
    engine.store(list(range(1, 11)), start=4)
    assert engine.blocks(list(range(1, 9))) == 2


PROMPTS = st.lists(st.integers(1, 2), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([1, 2]), st.data())
def test_what_is_credited_is_what_the_engine_holds(size: int, data: st.DataObject) -> None:
    engine = Followed(size)
    held: dict[str, Counter[int]] = {"gpu": Counter(), "cpu": Counter()}
    for _ in range(data.draw(st.integers(1, 14))):
        tier = data.draw(st.sampled_from(sorted(held)))
        there = sorted(name for name, count in held[tier].items() if count > 0)
        removes: bool = data.draw(st.booleans())
        if there and removes:
            name = data.draw(st.sampled_from(there))
            engine.remove(name, tier)
            held[tier][name] -= 1
        else:
            prompt = data.draw(PROMPTS)
            held[tier].update(engine.store(prompt, tier=tier))
        prompt = data.draw(PROMPTS)
        best: Counter[str] = Counter()
        for end in range(INDEX_SIZE, len(prompt) + 1, INDEX_SIZE):
            ends = range(end - INDEX_SIZE + size, end + 1, size)
            names = [name_of(prompt[:one]) for one in ends]
            whole = [t for t in ("gpu", "cpu") if all(held[t][name] > 0 for name in names)]
            if not whole:
                break
            best[whole[0]] += 1
        match = engine.match(prompt)
        assert (dict(match.tiers) if match else {}) == dict(best)
    for tier, counts in held.items():
        for name, count in counts.items():
            for _ in range(count):
                engine.remove(name, tier)
    assert (engine.ledger.pieces, engine.match([1] * 12)) == (0, None)
    assert set(make.swept(engine.index).sizes().values()) == {0}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_reuse_of_names_makes_it_raise_or_leaves_anything_behind(data: st.DataObject) -> None:
    engine = Followed(1)
    names = st.lists(st.integers(1, 6), min_size=1, max_size=6)
    for _ in range(data.draw(st.integers(1, 12))):
        told = data.draw(names)
        parent = data.draw(st.sampled_from([None, *range(1, 7)]))
        size = data.draw(st.sampled_from([1, 1, 2, 4]))
        tokens = pack(data.draw(st.lists(st.integers(1, 2), min_size=24, max_size=24)))
        stored = BlockStored(told, parent, tokens[: len(told) * size * 4], size)
        engine.ledger.apply(stored, "tiny")
        engine.ledger.apply(BlockRemoved(data.draw(names)), "tiny")
    engine.ledger.apply(AllBlocksCleared(), "tiny")
    assert engine.match([1] * 12) is None
    assert (engine.ledger.pieces, engine.ledger.parked_blocks) == (0, 0)
    assert set(make.swept(engine.index).sizes().values()) == {0}


def test_identities_keep_pieces_apart() -> None:
    engine = Followed(2)
    engine.store([1, 2, 3, 4])
    hashes = block_hashes(pack([1, 2, 3, 4]), INDEX_SIZE, root(Identity("other")))
    assert engine.index.match(hashes) == {}
