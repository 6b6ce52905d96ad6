"""Whole histories: several engines and ranks tell one index what they do, over a lossy network.

The reference is what each engine really held at the last message that was heard of it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder, Match, Trust
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer.naive_engine import DEPTH, IDENTITIES, Held, NaiveEngine, tokens

HOLDERS = (Holder("e1", 0), Holder("e1", 1), Holder("e2", 0), Holder("e3", 0))
PROMPTS = tuple(itertools.product(range(2), repeat=DEPTH))


class World:
    """Engines that work, a network that loses, and the index that hears what is left."""

    def __init__(self, rng: random.Random, loss: float) -> None:
        self.rng = rng
        self.loss = loss
        self.index = PrefixIndex(16)
        # The first two give equal blocks equal names, and the others names of their own.
        seeds = (7, 7, 8, 9)
        self.engines = [NaiveEngine(rng, s, h.rank) for h, s in zip(HOLDERS, seeds, strict=True)]
        self.feeds = [self.index.open(Source(h, f"tcp://{h.address}:{h.rank}")) for h in HOLDERS]
        self.heard: list[int | None] = [None] * len(HOLDERS)

    def act(self) -> None:
        at = self.rng.randrange(len(HOLDERS))
        engine, feed = self.engines[at], self.feeds[at]
        if self.rng.random() < self.loss / 10:
            feed.lost()
            engine.restart()
            self.heard[at] = None
            feed.connected()
        message = engine.work()
        # Where no scrape tells processes apart, the number that is expected is taken for proof.
        misleading = feed.trust is Trust.STALE and feed.order.next == len(engine.sent) - 1
        if misleading or self.rng.random() < self.loss:
            return
        feed.receive(message, 1.0)
        self.heard[at] = len(engine.sent) - 1
        if self.rng.random() < 0.2:
            feed.receive(self._again(at), 1.0)

    def check(self) -> None:
        for identity in IDENTITIES:
            for path in PROMPTS:
                matches = self.index.match([identity], pack(tokens(path)), 0.0).matches
                for holder, engine, feed, heard in zip(
                    HOLDERS, self.engines, self.feeds, self.heard, strict=True
                ):
                    truth = engine.truth[heard] if heard is not None else {}
                    chain = [Held(identity, path[: end + 1]) for end in range(DEPTH)]
                    _compare(matches.get(holder), feed, chain, truth)

    def _again(self, at: int) -> list[bytes]:
        """One of the messages that were heard in the engine's life, once more."""
        feed = self.feeds[at]
        sent = self.engines[at].sent
        return sent[self.rng.randrange(feed.order.start, len(sent))]


def _compare(
    match: Match | None, feed: Feed, chain: list[Held], truth: Mapping[Held, set[str]]
) -> None:
    credited = match.blocks if match else 0
    if feed.trust is Trust.STALE:
        assert credited == 0
    elif feed.trust is Trust.EXACT:
        reach = next((at for at, block in enumerate(chain) if block not in truth), len(chain))
        assert credited == reach
        if match is not None:
            best = ["gpu" if "gpu" in truth[block] else "cpu" for block in chain[:reach]]
            assert dict(match.tiers) == {tier: best.count(tier) for tier in set(best)}


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_the_index_tells_what_every_engine_holds(seed: int, length: int) -> None:
    world = World(random.Random(seed), loss=0.0)
    for _ in range(length):
        world.act()
    world.check()
    for feed, engine in zip(world.feeds, world.engines, strict=True):
        assert feed.trust is (Trust.EXACT if engine.sent else Trust.PARTIAL)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([0.02, 0.1, 0.4]))
def test_what_is_called_exact_is_the_truth_whatever_is_lost(
    seed: int, length: int, loss: float
) -> None:
    world = World(random.Random(seed), loss)
    for _ in range(length):
        world.act()
        if world.rng.random() < 0.1:
            world.check()
    world.check()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_nothing_is_left_once_every_engine_is_gone(seed: int, length: int) -> None:
    world = World(random.Random(seed), loss=0.1)
    for _ in range(length):
        world.act()
    for feed in world.feeds:
        world.index.close(feed)
    for now in range(100):
        world.index.tick(float(now))
    assert not any(world.index.stats().sizes.values())
