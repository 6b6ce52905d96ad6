"""Replays: asks engines for the past messages that streams want, a few at a time. IO."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import structlog
import zmq

from indexer.block import Trust
from indexer.feed import Feed
from indexer.replay import Replay, Step
from indexer.sockets import Context, dealer, receive
from indexer.turns import Turns

MAX_AT_ONCE = 8
"""Replays of one process; each is up to 10,000 messages to apply."""
IDLE_S = 2.0
"""Silence after which an answer is taken to have ended, or not to come."""
OVERALL_S = 120.0
COOLDOWN_S = 30.0
"""Pause after a replay that failed, doubled with each further one."""
MAX_COOLDOWN_S = 600.0

log = structlog.get_logger(__name__)


class _Exchange:
    """A replay in progress; a reader. When it is over, it still takes in what waited for it."""

    def __init__(self, owner: Replayer, feed: Feed, now: float) -> None:
        self.feed = feed
        self.is_over = False
        self.sockets: Sequence[zmq.Socket[bytes]] = ()
        self.heard_at = self.began_at = now
        self._owner = owner
        self._replay = Replay(feed)

    def ask(self) -> None:
        """Send a request on a socket of its own; nothing of an earlier answer is read any more."""
        self.close()
        try:
            socket = dealer(self._owner.context, self.feed.source.replay or "")
        except (zmq.ZMQError, ValueError) as error:
            self._owner.errors[self.feed.source.holder.address, "replay"] += 1
            log.warning("kv_replay.unusable", replay=self.feed.source.replay, error=str(error))
            self.go_on(self._replay.give_up())
            return
        self.sockets = (socket,)
        self.heard_at = time.monotonic()
        socket.send_multipart(self._replay.request(), zmq.DONTWAIT)
        self._owner.turns.add(self)

    def read(self) -> bool:
        if self.is_over:
            if self.feed.hear_waiting():
                return True
            self._owner.finish(self)
            return False
        try:
            frames, _ = receive(self.sockets[0])
        except zmq.Again:
            return False
        self.heard_at = time.monotonic()
        self.go_on(self._replay.receive(frames))
        return True

    def look(self, now: float) -> None:
        """Notice silence and the end of patience."""
        if self.is_over:
            return
        if now - self.began_at > OVERALL_S:
            self.go_on(self._replay.give_up())
        elif now - self.heard_at > IDLE_S:
            self.go_on(self._replay.silent())

    def fail(self) -> None:
        self._owner.failed += 1
        log.exception("kv_replay.failed", replay=self.feed.source.replay)
        self.feed.missed_something()
        if not self.is_over:
            self.go_on(self._replay.give_up())

    def go_on(self, step: Step) -> None:
        match step:
            case Step.READ:
                pass
            case Step.ASK:
                self.ask()
            case Step.END:
                self.close()
                self.is_over = True
                self._owner.turns.add(self)

    def close(self) -> None:
        self._owner.turns.remove(self)
        for socket in self.sockets:
            socket.close(linger=0)
        self.sockets = ()


class Replayer:
    """
    Attributes:
        failed: Messages that raised an error of ours and ended their replay.
        errors: Endpoint address and what ZMQ could not do -> how often.
    """

    def __init__(
        self, context: Context, turns: Turns, errors: Counter[tuple[str, str]] | None = None
    ) -> None:
        """`errors`: where they are counted, if elsewhere, too."""
        self.context = context
        self.turns = turns
        self.failed = 0
        self.errors: Counter[tuple[str, str]] = Counter() if errors is None else errors
        self._active: dict[Feed, _Exchange] = {}
        self._failures: dict[Feed, int] = {}
        self._cooling: dict[Feed, float] = {}

    def __len__(self) -> int:
        """Replays in progress."""
        return len(self._active)

    @property
    def cooling(self) -> Mapping[Feed, float]:
        """Streams whose replays failed, and when they may be asked for again."""
        return self._cooling

    def look(self, feeds: Iterable[Feed]) -> None:
        """Start what is wanted and end what takes too long; to be called a few times a second."""
        now = time.monotonic()
        for feed in [feed for feed, until in self._cooling.items() if until <= now]:
            del self._cooling[feed]
            feed.catch_up.may_ask_again()
        for exchange in list(self._active.values()):
            exchange.look(now)
        wanting = [f for f in feeds if f.catch_up.wants is not None and f not in self._active]
        # Those whose live messages wait, or that are not credited, come first.
        wanting.sort(key=lambda f: not f.catch_up.waiting and f.trust is not Trust.STALE)
        for feed in wanting[: MAX_AT_ONCE - len(self._active)]:
            self._active[feed] = _Exchange(self, feed, now)
            self._active[feed].ask()

    def cut(self, feed: Feed) -> None:
        """The stream broke, or is gone: its replay is void."""
        exchange = self._active.pop(feed, None)
        if exchange is not None:
            exchange.close()

    def forget(self, feed: Feed) -> None:
        """The stream is gone."""
        self.cut(feed)
        self._failures.pop(feed, None)
        self._cooling.pop(feed, None)

    def finish(self, exchange: _Exchange) -> None:
        """A replay is over, and nothing waits for it any more."""
        feed = exchange.feed
        self.cut(feed)
        if feed.catch_up.may_ask:
            self._failures.pop(feed, None)
        else:
            failures = self._failures[feed] = self._failures.get(feed, 0) + 1
            pause_s = min(COOLDOWN_S * 2.0 ** (failures - 1), MAX_COOLDOWN_S)
            self._cooling[feed] = time.monotonic() + pause_s

    def close(self) -> None:
        for feed in list(self._active):
            self.forget(feed)
        self._failures.clear()
        self._cooling.clear()
