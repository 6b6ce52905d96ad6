"""What a stream asks for, what waits meanwhile, and what it is worth afterwards."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Trust
from indexer.catch_up import OVERLAP
from tests.indexer.replaying import BLOCKS, Bench, Engine, connected


def test_a_stream_that_is_joined_late_learns_what_it_missed() -> None:
    engine = Engine()
    for block in (0, 1, 2, 1):
        engine.publish(block)
    bench = connected(Bench(engine))
    assert (bench.credited(), bench.trust) == ({0, 2}, Trust.EXACT)
    assert bench.asked == [0, 4]
    assert (bench.feed.stats.replays, bench.feed.stats.replayed) == (1, 4)
    bench.hear(engine.publish(3))
    assert (bench.credited(), bench.trust) == ({0, 2, 3}, Trust.EXACT)


def test_an_engine_that_has_said_nothing_yet_is_exact() -> None:
    bench = connected(Bench())
    assert (bench.asked, bench.trust) == ([0], Trust.EXACT)
    bench.hear(bench.engine.publish(0))
    assert (bench.credited(), bench.trust) == ({0}, Trust.EXACT)


def test_messages_that_arrive_during_a_replay_are_applied_after_it() -> None:
    engine = Engine()
    for block in (0, 1):
        engine.publish(block)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    assert bench.replay is not None
    bench.step(bench.replay.receive(bench.answers.popleft()))
    bench.hear(engine.publish(0), engine.publish(3))
    assert (bench.credited(), bench.trust) == ({0}, Trust.PARTIAL)
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({1, 3}, Trust.EXACT)
    assert bench.asked == [0]


def test_until_the_first_answer_live_messages_count() -> None:
    engine = Engine()
    engine.publish(0)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    bench.hear(engine.publish(1))
    assert (bench.credited(), bench.trust) == ({1}, Trust.PARTIAL)
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1}, Trust.EXACT)


def test_a_gap_is_asked_for_and_closed() -> None:
    bench = connected(Bench())
    engine = bench.engine
    bench.hear(engine.publish(0))
    engine.publish(0, 1)
    bench.hear(engine.publish(2))
    assert (bench.credited(), bench.trust, bench.feed.catch_up.wants) == ({0}, Trust.PARTIAL, 1)
    bench.asked.clear()
    bench.catch_up()
    assert (bench.credited(), bench.trust, bench.asked) == ({1, 2}, Trust.EXACT, [1])
    assert (bench.feed.stats.gaps, bench.feed.stats.missed) == (1, 1)


def test_a_gap_that_the_engine_can_no_longer_close_is_marked() -> None:
    engine = Engine(buffer=1)
    bench = connected(Bench(engine))
    bench.hear(engine.publish(0))
    for block in (0, 1, 2):
        engine.publish(block)
    bench.hear(engine.publish(3))
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 3}, Trust.PARTIAL)


def test_a_lost_connection_to_the_same_process_heals_by_replay() -> None:
    bench = connected(Bench())
    engine = bench.engine
    for number in range(OVERLAP + 4):
        bench.hear(engine.publish(number % 2))
    bench.feed.lost()
    assert (bench.credited(), bench.trust) == (set(), Trust.STALE)
    engine.publish(3)
    bench.asked.clear()
    connected(bench)
    assert (bench.credited(), bench.trust) == ({3}, Trust.EXACT)
    assert bench.asked == [4, OVERLAP + 5]
    assert bench.feed.stats.restarts == 0


@pytest.mark.parametrize("published", [0, 1, 2, 5])
def test_an_engine_that_restarted_unheard_is_found_out_by_what_it_replays(published: int) -> None:
    bench = connected(Bench())
    engine = bench.engine
    for block in (0, 1, 2):
        bench.hear(engine.publish(block))
    bench.feed.lost()
    engine.restart()
    for block in range(published):
        engine.publish(block)
    connected(bench)
    assert (bench.credited(), bench.trust) == (engine.holds, Trust.EXACT)
    assert bench.feed.stats.restarts == 1


def test_a_process_that_cannot_be_proven_loses_what_it_had() -> None:
    engine = Engine(buffer=2)
    bench = connected(Bench(engine))
    bench.hear(engine.publish(0))
    bench.feed.lost()
    for block in (1, 2, 3):
        engine.publish(block)
    connected(bench)
    assert (bench.credited(), bench.trust) == ({2, 3}, Trust.PARTIAL)


def test_a_restart_that_is_heard_late_is_told_from_its_start() -> None:
    bench = connected(Bench())
    engine = bench.engine
    for block in (0, 1, 2):
        bench.hear(engine.publish(block))
    engine.restart()
    engine.publish(3)
    bench.hear(engine.publish(4))
    assert (bench.credited(), bench.trust, bench.feed.catch_up.wants) == ({4}, Trust.PARTIAL, 0)
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({3, 4}, Trust.EXACT)


def test_messages_that_are_sent_again_change_nothing() -> None:
    bench = connected(Bench())
    sent = [bench.engine.publish(block) for block in (0, 1, 0)]
    bench.hear(*sent, *sent)
    assert (bench.credited(), bench.trust) == ({1}, Trust.EXACT)
    assert (bench.feed.stats.duplicates, bench.feed.stats.restarts) == (3, 0)


def test_a_broken_connection_ends_the_wait_for_a_replay() -> None:
    bench = connected(Bench())
    bench.hear(bench.engine.publish(0))
    bench.engine.publish(1)
    bench.hear(bench.engine.publish(2))
    bench.feed.lost()
    assert (bench.feed.catch_up.wants, len(bench.feed.catch_up.waiting)) == (None, 0)
    connected(bench)
    assert (bench.credited(), bench.trust) == ({0, 1, 2}, Trust.EXACT)


def test_too_many_waiting_messages_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.catch_up.MAX_WAITING_MESSAGES", 2)
    bench = connected(Bench())
    bench.hear(bench.engine.publish(0))
    bench.engine.publish(1)
    for block in (2, 3, 4, 0):
        bench.hear(bench.engine.publish(block))
    assert len(bench.feed.catch_up.waiting) == 2
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({1, 2, 3, 4}, Trust.EXACT)


class World:
    """An engine, a lossy network and the stream, driven by a random history."""

    def __init__(self, rng: random.Random, buffer: int) -> None:
        self.rng = rng
        self.engine = Engine(buffer)
        self.bench = Bench(self.engine)
        self.linked = True
        self.bench.feed.connected()

    def act(self, action: str) -> None:
        getattr(self, action)()
        self.check()

    def publish(self) -> None:
        message = self.engine.publish(self.rng.randrange(BLOCKS))
        if self.linked and self.rng.random() < 0.8:
            self.bench.hear(message)
            if self.rng.random() < 0.1:
                self.bench.hear(message)

    def repeat(self) -> None:
        if self.linked and self.engine.sent:
            # Only what was heard can be heard again: the network loses, it does not hold back.
            feed = self.bench.feed
            heard = [
                m for m in self.engine.sent if m[1] < (feed.order.next or 0).to_bytes(8, "big")
            ]
            if heard and not feed.catch_up.waiting:
                self.bench.hear(self.rng.choice(heard))

    def break_link(self) -> None:
        if self.linked:
            self.linked = False
            self.bench.feed.lost()
            self.bench.replay = None

    def link(self) -> None:
        if not self.linked:
            self.linked = True
            self.bench.feed.connected()

    def restart(self) -> None:
        self.break_link()
        self.engine.restart()

    def replay(self) -> None:
        """One message of an answer, or none where the network lost it."""
        bench = self.bench
        if bench.replay is None:
            if (
                not bench.feed.hear_waiting()
                and bench.feed.catch_up.wants is not None
                and self.linked
            ):
                bench.begin()
        elif bench.answers:
            answer = bench.answers.popleft()
            # The first one always fits: a socket that is new has its queue empty.
            first = len(bench.answers) + 1 == bench.answered
            if first or self.rng.random() < 0.85:
                bench.step(bench.replay.receive(answer))
        else:
            bench.step(bench.replay.silent())

    def check(self) -> None:
        feed = self.bench.feed
        if feed.trust is Trust.STALE:
            assert self.bench.credited() == set()
        if feed.trust is Trust.EXACT:
            heard = feed.order.next or 0
            truth = self.engine.truth[heard - 1] if heard else set()
            assert self.bench.credited() == truth


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 20, 1000]), st.integers(1, 120))
def test_what_is_exact_is_the_truth_and_what_is_lost_heals(
    seed: int, buffer: int, length: int
) -> None:
    rng = random.Random(seed)
    world = World(rng, buffer)
    actions = ["publish"] * 6 + ["replay"] * 8 + ["repeat", "break_link", "link", "link", "restart"]
    for _ in range(length):
        world.act(rng.choice(actions))
    world.link()
    world.bench.feed.catch_up.may_ask_again()
    world.bench.catch_up()
    world.check()
    world.bench.hear(world.engine.publish(0))
    world.bench.catch_up()
    world.check()
    assert world.bench.trust is not Trust.STALE
    if buffer == 1000:
        assert world.bench.trust is Trust.EXACT
        assert world.bench.credited() == world.engine.holds
