"""Replays: what is asked for, how answers are judged, and what a stream is worth afterwards."""

from __future__ import annotations

import base64
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder, Trust
from indexer.catch_up import OVERLAP
from indexer.events import Reason
from indexer.feed import Feed, Source
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.replay import MAX_FRUITLESS, Replay, Step
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import E1, TOPIC

END = [b"", b"", b"\xff" * 8, b""]
OLD_END = [b"", b"\xff" * 8, b""]
BLOCKS = 5


class Engine:
    """A publisher: what it holds, what it sent in this life, and what it can still replay."""

    def __init__(self, buffer: int = 10_000) -> None:
        self.holds: set[int] = set()
        self.truth: list[set[int]] = []
        self.life = 0
        self.sent: list[list[bytes]] = []
        self.buffer: deque[tuple[int, list[bytes]]] = deque(maxlen=buffer)

    def publish(self, *blocks: int) -> list[bytes]:
        """Announce blocks that it does not hold, and the end of those that it does."""
        events = []
        for block in blocks:
            if block in self.holds:
                events.append(make.removed([block]))
            else:
                events.append(make.stored([block], make.prompt(1, 16 * block)))
            self.holds ^= {block}
        seq = len(self.sent)
        message = make.frames(seq, *events, ts=self.life + seq / 1e6)
        self.sent.append(message)
        self.buffer.append((seq, message))
        self.truth.append(set(self.holds))
        return message

    def restart(self) -> None:
        self.life += 1
        self.holds.clear()
        self.sent.clear()
        self.truth.clear()
        self.buffer.clear()

    def answers(self, start: int) -> list[list[bytes]]:
        return [[b"", *message] for seq, message in self.buffer if seq >= start] + [END]


class Bench:
    """A stream with an index of its own, and whoever asks for its replays."""

    def __init__(self, engine: Engine | None = None, **source: Any) -> None:
        self.engine = engine or Engine()
        self.index = BlockIndex(16)
        guesses = Speculative(self.index.bits)
        ledgers: dict[Holder, Ledger] = {}
        self.feed = Feed(
            Source(E1, "tcp://x", replay="tcp://y", **source),
            lambda holder: ledgers.setdefault(holder, Ledger(holder, self.index, guesses)),
        )
        self.asked: list[int] = []
        self.replay: Replay | None = None
        self.answers: deque[list[bytes]] = deque()
        self.answered = 0

    @property
    def trust(self) -> Trust:
        return self.feed.trust

    def hear(self, *messages: list[bytes]) -> None:
        for message in messages:
            self.feed.receive(message, wall_s=3.5)

    def credited(self) -> set[int]:
        return {
            block
            for block in range(BLOCKS)
            if E1 in self.index.match(make.chains(make.prompt(1, 16 * block)))
        }

    def ask(self) -> None:
        assert self.replay is not None
        frames = self.replay.request()
        assert frames[0] == b""
        self.asked.append(int.from_bytes(frames[1], "big"))
        self.answers = deque(self.engine.answers(self.asked[-1]))
        self.answered = len(self.answers)

    def step(self, step: Step) -> None:
        if step is Step.ASK:
            self.ask()
        elif step is Step.END:
            self.replay = None

    def begin(self) -> None:
        self.replay = Replay(self.feed)
        self.ask()

    def catch_up(self) -> None:
        """Let the engine answer until nothing is wanted any more."""
        for _ in range(1000):
            if self.replay is None:
                while self.feed.hear_waiting():
                    pass
                if self.feed.catch_up.wants is None:
                    return
                self.begin()
            elif self.answers:
                self.step(self.replay.receive(self.answers.popleft()))
            else:
                self.step(self.replay.silent())
        raise AssertionError("the replay has no end")


def connected(bench: Bench) -> Bench:
    bench.feed.connected()
    bench.catch_up()
    return bench


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


def test_a_history_whose_beginning_is_gone_stays_partial() -> None:
    engine = Engine(buffer=2)
    for block in (0, 1, 2):
        engine.publish(block)
    bench = connected(Bench(engine))
    assert (bench.credited(), bench.trust) == ({1, 2}, Trust.PARTIAL)
    assert bench.feed.stats.truncated == 1
    bench.hear(engine.publish(3))
    assert (bench.credited(), bench.trust) == ({1, 2, 3}, Trust.PARTIAL)


def test_a_gap_that_the_engine_can_no_longer_close_is_marked() -> None:
    engine = Engine(buffer=1)
    bench = connected(Bench(engine))
    bench.hear(engine.publish(0))
    for block in (0, 1, 2):
        engine.publish(block)
    bench.hear(engine.publish(3))
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 3}, Trust.PARTIAL)


def test_a_hole_in_an_answer_is_asked_for_again() -> None:
    engine = Engine()
    for block in (0, 1, 2, 3):
        engine.publish(block)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    del bench.answers[1], bench.answers[1]
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2, 3}, Trust.EXACT)
    assert bench.asked == [0, 1, 4]


@pytest.mark.parametrize("with_end", [True, False], ids=["end marker", "silence"])
def test_a_lost_tail_is_asked_for_again(with_end: bool) -> None:
    engine = Engine()
    for block in (0, 1, 2):
        engine.publish(block)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    bench.answers = deque([bench.answers[0], *([END] if with_end else [])])
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2}, Trust.EXACT)


def test_an_engine_that_never_answers_is_given_up_and_heard_as_it_comes() -> None:
    bench = Bench()
    bench.feed.connected()
    bench.begin()
    bench.hear(bench.engine.publish(0), bench.engine.publish(1))
    bench.engine.publish(2)
    bench.hear(bench.engine.publish(3))
    for _ in range(MAX_FRUITLESS):
        assert bench.replay is not None
        bench.answers.clear()
        bench.step(bench.replay.silent())
    assert bench.replay is None
    while bench.feed.hear_waiting():
        pass
    assert (bench.credited(), bench.trust) == ({0, 1, 3}, Trust.PARTIAL)
    assert (bench.feed.catch_up.wants, bench.feed.stats.replays_failed) == (None, 1)
    bench.hear(bench.engine.publish(4))
    assert bench.credited() == {0, 1, 3, 4}
    bench.feed.catch_up.may_ask_again()
    assert bench.feed.catch_up.wants == 0
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0, 1, 2, 3, 4}, Trust.EXACT)


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


def test_answers_without_topics_go_to_the_model_of_the_stream() -> None:
    engine = Engine()
    engine.publish(0)
    bench = Bench(engine, base_model="tiny")
    bench.feed.connected()
    for _ in range(2):
        bench.replay = bench.replay or Replay(bench.feed)
        bench.ask()
        for answer in [[b"", *message[1:]] for message in engine.sent[bench.asked[-1] :]]:
            assert bench.replay.receive(answer) is Step.READ
        step = bench.replay.receive(OLD_END)
    assert step is Step.END
    bench.feed.hear_waiting()
    assert (bench.credited(), bench.trust) == ({0}, Trust.EXACT)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([], Reason.BAD_FRAMES),
        ([b"", b"x"], Reason.BAD_FRAMES),
        ([b"", b"", b"", b"x", b"y"], Reason.BAD_FRAMES),
        ([b"", TOPIC, b"\0\0", b"x"], Reason.BAD_SEQUENCE),
    ],
)
def test_junk_among_answers_is_counted_and_changes_nothing(
    answer: list[bytes], reason: Reason
) -> None:
    engine = Engine()
    engine.publish(0)
    bench = Bench(engine)
    bench.feed.connected()
    bench.begin()
    bench.answers.appendleft(answer)
    bench.catch_up()
    assert (bench.credited(), bench.trust) == ({0}, Trust.EXACT)
    assert bench.feed.rejected == {reason: 1}


def _exchanges(name: str) -> Iterator[tuple[int, list[list[bytes]]]]:
    """Recorded requests of DEALER sockets, and what came back."""
    lines = list(make.captured(name, "replay"))
    for request in lines:
        if request["dir"] == "send" and request["socket"] == "DEALER":
            sent = [base64.b64decode(frame) for frame in request["frames"]]
            if len(sent) == 2:
                yield (
                    int.from_bytes(sent[1], "big"),
                    [
                        [base64.b64decode(frame) for frame in line["frames"]]
                        for line in lines
                        if line["dir"] == "recv" and line["exchange"] == request["exchange"]
                    ],
                )


@pytest.mark.parametrize("name", ["bs16_dp2", "bs16_sha256_full", "bs16_sha256cbor_bytes"])
def test_recorded_answers_are_understood(name: str) -> None:
    seen = 0
    for start, answers in _exchanges(name):
        bench = Bench()
        bench.feed.catch_up.wants = start
        bench.replay = Replay(bench.feed)
        assert bench.replay.request() == [b"", start.to_bytes(8, "big")]
        steps = [bench.replay.receive(answer) for answer in answers]
        if steps:
            seen += 1
            assert steps[:-1] == [Step.READ] * (len(steps) - 1)
            assert bench.feed.stats.replayed == len(answers) - 1
            assert bench.feed.rejected == {}
    assert seen


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
