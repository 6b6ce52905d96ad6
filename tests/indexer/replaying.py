"""An engine that replays, the stream that hears it, and whoever asks, all without sockets."""

from __future__ import annotations

from collections import deque
from typing import Any

from indexer.block import Holder, Trust
from indexer.feed import Feed, Source
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.replay import Replay, Step
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import E1

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
