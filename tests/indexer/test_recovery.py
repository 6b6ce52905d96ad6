"""Routers that come and go beside an engine: by snapshots, replays and scrapes, and never wrong.

Whatever is lost, replayed in part, kept on disk and read again, and whichever of the two processes
ends in between: what is called exact is what the engine held, and what is stale is not credited.
"""

from __future__ import annotations

import random
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import snapshot
from indexer.block import Trust
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from indexer.replay import Replay, Step
from tests.indexer import make
from tests.indexer.make import BASE, E1
from tests.indexer.replaying import BLOCKS, Engine

NOW = 100.0


class Router:
    """One process of ours: its index, its stream of the engine, and what it scraped."""

    def __init__(self, engine: Engine, *, replays: bool) -> None:
        self.engine = engine
        self.index = PrefixIndex(16)
        self.feed = self.index.open(Source(E1, "tcp://x", replay="tcp://y" if replays else None))
        self.linked = False
        self.replay: Replay | None = None
        self.answers: deque[list[bytes]] = deque()
        self.asked = 0
        self.process_start: float | None = None
        self.may_prove: bool | None = None
        """Since the stream is stale: whether the process that was lost had been scraped."""

    def link(self) -> None:
        if not self.linked:
            self.linked = True
            self.feed.connected()

    def cut(self) -> None:
        if self.linked:
            self.linked = False
            self.feed.lost()
            self.replay = None

    def scrape(self) -> None:
        """As the router does: a start that changed is a restart, the same one may be proof."""
        before, self.process_start = self.process_start, float(self.engine.life)
        restored = self.feed.restored
        if before not in (None, self.process_start):
            self.index.restarted(E1.address)
        elif self.feed.trust is not Trust.STALE:
            self.may_prove = None
        elif restored is None:
            if self.may_prove:
                self.index.same_process(E1.address)
            elif self.may_prove is None:
                self.may_prove = before is not None
        elif restored.process_start == self.process_start:
            self.feed.proven()
        elif restored.process_start is not None:
            self.index.restarted(E1.address)

    def read(self, loss: random.Random) -> None:
        """One step of a replay, some of whose messages are lost."""
        if self.replay is None:
            waits = self.feed.hear_waiting()
            if not waits and self.linked and self.feed.catch_up.wants is not None:
                self.replay = Replay(self.feed)
                self._ask()
        elif not self.answers:
            self._go_on(self.replay.silent())
        else:
            is_first = len(self.answers) == self.asked
            answer = self.answers.popleft()
            if is_first or loss.random() < 0.85:
                self._go_on(self.replay.receive(answer))

    def credited(self) -> set[int]:
        prompts = {block: pack(make.prompt(1, 16 * block)) for block in range(BLOCKS)}
        return {b for b, p in prompts.items() if E1 in self.index.match([BASE], p, 0.0).matches}

    def _ask(self) -> None:
        assert self.replay is not None
        start = int.from_bytes(self.replay.request()[1], "big")
        self.answers = deque(self.engine.answers(start))
        self.asked = len(self.answers)

    def _go_on(self, step: Step) -> None:
        if step is Step.ASK:
            self._ask()
        elif step is Step.END:
            self.replay = None


class World:
    def __init__(self, rng: random.Random, buffer: int, *, replays: bool, scrapes: bool) -> None:
        self.rng = rng
        self.replays = replays
        self.scrapes = scrapes
        self.engine = Engine(buffer)
        self.kept: bytes | None = None
        self.router = Router(self.engine, replays=replays)
        self.router.link()

    def publish(self) -> None:
        message = self.engine.publish(self.rng.randrange(BLOCKS))
        router = self.router
        # Where neither scrape nor replay tells processes apart, a number that fits is the proof.
        misleads = not self.replays and router.feed.trust is Trust.STALE
        if router.linked and not misleads and self.rng.random() < 0.85:
            for _ in range(1 + (self.rng.random() < 0.1)):
                router.feed.receive(message, 1.0)

    def read(self) -> None:
        self.router.read(self.rng)

    def link(self) -> None:
        self.router.link()

    def cut(self) -> None:
        self.router.cut()

    def scrape(self) -> None:
        if self.scrapes:
            self.router.scrape()

    def engine_restarts(self) -> None:
        self.router.cut()
        self.engine.restart()

    def keep(self) -> None:
        taken = snapshot.take(self.router.index, lambda _: self.router.process_start)
        self.kept = snapshot.encode(taken, NOW)

    def router_restarts(self) -> None:
        self.router = router = Router(self.engine, replays=self.replays)
        if self.kept is not None and self.rng.random() < 0.8:
            found = snapshot.decode(self.kept, 16, NOW)
            snapshot.restore(router.index, found, snapshot.matching(found, router.index.feeds()))
        router.link()

    def check(self) -> None:
        feed, credited = self.router.feed, self.router.credited()
        if feed.trust is Trust.STALE:
            assert not credited
        if feed.trust is Trust.EXACT:
            heard = feed.order.next or 0
            assert credited == (self.engine.truth[heard - 1] if heard else set())


ACTIONS = (
    *["publish"] * 6,
    *["read"] * 8,
    *["cut", "link", "link", "keep", "keep", "scrape", "scrape"],
    *["engine_restarts", "router_restarts"],
)


@settings(deadline=None, max_examples=300)
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 20, 1000]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 120),
)
def test_whoever_ends_and_comes_back_what_is_exact_is_the_truth(
    seed: int, buffer: int, replays: bool, scrapes: bool, length: int
) -> None:
    world = World(random.Random(seed), buffer, replays=replays, scrapes=scrapes)
    for _ in range(length):
        getattr(world, world.rng.choice(ACTIONS))()
        world.check()
