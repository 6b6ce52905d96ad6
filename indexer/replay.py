"""Replay: one stream's request for past messages, and what to do about the answers.

Answers lose messages: an engine's socket drops silently what its reader has not taken yet, an end
marker included. So an answer counts only as far as it has no hole, the rest is asked for again, and
the end is reached when an answer has no news, or continues into the live messages that waited.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence

from indexer import frames
from indexer.events import Reason
from indexer.feed import Feed
from indexer.frames import End, Message
from indexer.order import Verdict

MAX_FRUITLESS = 3
"""Requests in a row that bring nothing and no end after which the engine is taken not to replay."""


class Step(enum.Enum):
    """What whoever reads the answers does next."""

    READ = enum.auto()
    ASK = enum.auto()
    """Send `request()`, and read nothing of the answer so far any more."""
    END = enum.auto()


class Replay:
    """
    Attributes:
        rejected: Messages of answers that could not be read, by reason.
    """

    def __init__(self, feed: Feed) -> None:
        self.rejected: Counter[Reason] = feed.rejected
        self._order = feed.order
        self._catch_up = feed.catch_up
        self._start = 0
        self._answered = 0
        self._new = 0
        self._fruitless = 0

    def request(self) -> list[bytes]:
        """The frames to send, on a socket that has seen no other request."""
        self._answered = self._new = 0
        self._start = self._catch_up.ask()
        return frames.request(self._start)

    def receive(self, parts: Sequence[bytes]) -> Step:
        """One message of an answer."""
        read = frames.answer(parts)
        if self._catch_up.wants is not None:
            return Step.ASK  # the stream went on to another question meanwhile
        match read:
            case Message():
                return self._message(read)
            case End():
                return self._end()
            case Reason():
                self.rejected[read] += 1
                return Step.READ

    def silent(self) -> Step:
        """Nothing came for a while."""
        self._fruitless = 0 if self._new else self._fruitless + 1
        if self._fruitless >= MAX_FRUITLESS:
            return self.give_up()
        return Step.ASK

    def give_up(self) -> Step:
        """It takes too long."""
        self._catch_up.ended(done=False)
        return Step.END

    def _message(self, message: Message) -> Step:
        if not self._answered:
            self._catch_up.begins(message.seq)
        self._answered += 1
        match self._catch_up.replayed(message):
            case Verdict.GAP | Verdict.OTHER | Verdict.FIRST:
                return Step.ASK
            case Verdict.NEXT:
                self._new += 1
                return Step.READ
            case Verdict.REPEATED | Verdict.OLD:
                return Step.READ

    def _end(self) -> Step:
        catch_up = self._catch_up
        if not self._answered:
            catch_up.is_empty()
            if catch_up.wants is not None:
                return Step.ASK
        elif self._may_lack_its_tail() and not self._joins_live_messages():
            return Step.ASK
        catch_up.ended(done=True)
        return Step.END

    def _may_lack_its_tail(self) -> bool:
        """Only an answer without news to the request for what comes next proves the opposite."""
        return self._new > 0 or self._start != self._order.next

    def _joins_live_messages(self) -> bool:
        expected, waiting = self._order.next or 0, self._catch_up.waiting
        return waiting.first_from(expected) == expected or waiting.last_seq == expected - 1
