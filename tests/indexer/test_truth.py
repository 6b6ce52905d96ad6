"""The index against the truth: engines with ranks, and a network that loses, repeats and mixes up.

Each rank of an engine is a publisher with numbers of its own. What they send is interleaved in any
way, lost, sent twice; engines restart, endpoints go and come back as other engines. What is
credited as exact is what the rank held when it sent the latest message that was heard, identity by
identity; where nothing was lost it is what the rank holds.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder, Identity, Trust
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make

ADDRESSES = ("10.0.0.1:1", "10.0.0.2:1")
HOLDERS = tuple(Holder(address, rank) for address in ADDRESSES for rank in (0, 1))
IDENTITIES = (
    Identity("tiny"),
    Identity("tiny", "sql"),
    Identity("tiny", None, "x"),
    Identity("tiny", "sql", "x"),
    Identity("other"),
)
DEPTH = 3
Chain = tuple[int, int]
"""Index of an identity, number of leading blocks that end there: all prompts of one begin alike."""


class Rank:
    """A cache that evicts as it likes, and its publisher."""

    def __init__(self, life: int) -> None:
        self.life = life
        self.held: set[Chain] = set()
        self.history: list[frozenset[Chain]] = []
        self.on_the_way: deque[list[bytes]] = deque()

    def act(self, rng: random.Random) -> None:
        """One step: some blocks enter or leave, and a message says so."""
        which = rng.randrange(len(IDENTITIES))
        events = []
        if rng.random() < 0.05:
            self.held.clear()
            events.append(make.CLEARED)
        for _ in range(rng.randint(1, 2)):
            length = sum((which, end) in self.held for end in range(1, DEPTH + 1))
            gapless = all((which, end) in self.held for end in range(1, length + 1))
            if gapless and length < DEPTH and rng.random() < 0.7:
                events.append(self._store(which, length + 1))
            elif self.held:
                events.append(self._remove(rng.choice(sorted(self.held))))
        model = IDENTITIES[which].model
        seq = len(self.history)
        topic = f"kv@x@{model}".encode()
        self.history.append(frozenset(self.held))
        ts = self.life + seq / 1e6
        self.on_the_way.append(make.frames(seq, *events, topic=topic, ts=ts))

    def _store(self, which: int, end: int) -> dict[str, Any]:
        self.held.add((which, end))
        identity = IDENTITIES[which]
        keys = [key for key in (identity.lora, identity.salt if end == 1 else None) if key]
        return make.stored(
            [_name(which, end)],
            make.prompt(1, 16 * (end - 1)),
            _name(which, end - 1) if end > 1 else None,
            lora_name=identity.lora,
            extra_keys=[keys or None],
        )

    def _remove(self, chain: Chain) -> dict[str, Any]:
        self.held.discard(chain)
        return make.removed([_name(*chain)])


def _name(which: int, end: int) -> int:
    return 100 * which + end


class World:
    def __init__(self, rng: random.Random, loss: float) -> None:
        self.rng = rng
        self.loss = loss
        self.index = PrefixIndex(16)
        self.life = 0
        self.ranks: dict[Holder, Rank] = {}
        self.feeds: dict[Holder, Feed] = {}
        for holder in HOLDERS:
            self._join(holder)

    def _join(self, holder: Holder) -> None:
        self.life += 1
        self.ranks[holder] = Rank(self.life)
        self.feeds[holder] = self.index.open(Source(holder, "tcp://x"))

    def send(self, holder: Holder) -> None:
        self.ranks[holder].act(self.rng)

    def deliver(self, holder: Holder) -> None:
        """The next message of one rank, whatever others wait for; or it is lost, or repeated."""
        on_the_way = self.ranks[holder].on_the_way
        if on_the_way:
            message = on_the_way.popleft()
            if self.rng.random() >= self.loss:
                for _ in range(1 + (self.rng.random() < self.loss)):
                    self.feeds[holder].receive(message, 1.0)

    def restart(self, holder: Holder) -> None:
        """All ranks of an engine die with it; its sockets tell."""
        for other in HOLDERS:
            if other.address == holder.address:
                self.feeds[other].lost()
                self.life += 1
                self.ranks[other] = Rank(self.life)
        self.index.restarted(holder.address)

    def replace(self, holder: Holder) -> None:
        """The endpoint goes, and another engine comes under its address."""
        for other in HOLDERS:
            if other.address == holder.address:
                gone, late = self.feeds[other], self.ranks[other].on_the_way
                self.index.close(gone)
                for message in late:
                    gone.receive(message, 1.0)
                self._join(other)

    def check(self) -> None:
        for holder in HOLDERS:
            feed, rank = self.feeds[holder], self.ranks[holder]
            if feed.trust is Trust.EXACT:
                heard = feed.order.next
                truth = rank.history[heard - 1] if heard else frozenset()
                assert self.credited(holder) == _leading(truth)
            elif feed.order.next is None:
                assert not any(self.credited(holder))

    def credited(self, holder: Holder) -> list[int]:
        """Per identity, its leading blocks that are credited."""
        prompt = pack(make.prompt(DEPTH))
        lookups = (self.index.match([identity], prompt, 0.0) for identity in IDENTITIES)
        matches = (lookup.matches.get(holder) for lookup in lookups)
        return [match.blocks if match else 0 for match in matches]


def _leading(held: frozenset[Chain]) -> list[int]:
    lengths = []
    for which in range(len(IDENTITIES)):
        length = 0
        while (which, length + 1) in held:
            length += 1
        lengths.append(length)
    return lengths


ACTIONS = ["send"] * 6 + ["deliver"] * 8 + ["restart", "replace"]


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False), st.sampled_from([0.0, 0.1, 0.4]), st.integers(1, 80))
def test_what_is_exact_is_the_truth(rng: random.Random, loss: float, length: int) -> None:
    world = World(rng, loss)
    for _ in range(length):
        getattr(world, rng.choice(ACTIONS))(rng.choice(HOLDERS))
        world.check()
    for holder in HOLDERS:
        while world.ranks[holder].on_the_way:
            world.deliver(holder)
    world.check()
    if not loss:
        for holder in HOLDERS:
            if world.ranks[holder].history:
                assert world.feeds[holder].trust is Trust.EXACT
                assert world.credited(holder) == _leading(frozenset(world.ranks[holder].held))
    for holder in HOLDERS:
        world.index.close(world.feeds[holder])
    while world.index.tick(0.0):
        pass
    assert set(world.index.stats().sizes.values()) == {0}


def test_a_rank_that_restarts_alone_loses_only_what_it_had() -> None:
    world = World(random.Random(5), 0.0)
    for _ in range(12):
        for holder in HOLDERS:
            world.send(holder)
            world.deliver(holder)
    before = {holder: world.credited(holder) for holder in HOLDERS}
    alone = HOLDERS[2]
    assert sum(map(any, before.values())) == 3
    assert any(before[alone])
    world.life += 1
    world.ranks[alone] = Rank(world.life)
    world.send(alone)
    world.deliver(alone)
    world.check()
    assert world.feeds[alone].stats.restarts == 1
    assert {h: world.credited(h) for h in HOLDERS if h != alone} == {
        h: blocks for h, blocks in before.items() if h != alone
    }
    assert [world.feeds[h].stats.restarts + world.feeds[h].stats.gaps for h in HOLDERS] == [
        0, 0, 1, 0,
    ]  # fmt: skip
