"""Order: judges a message by its number, which counts up from 0 at each start of an engine."""

from __future__ import annotations

import enum

import msgspec

REMEMBERED = 512
"""Latest messages of which the digest is kept, to tell a repetition from another life."""


class Verdict(enum.Enum):
    FIRST = enum.auto()
    """Nothing was heard before."""
    NEXT = enum.auto()
    GAP = enum.auto()
    """Some were skipped."""
    REPEATED = enum.auto()
    """The same message was taken in before."""
    OLD = enum.auto()
    """Its number was passed too long ago to compare."""
    OTHER = enum.auto()
    """Its number was passed with another message: the engine began anew."""


class Progress(msgspec.Struct, frozen=True):
    """Where a stream was.

    Attributes:
        start: First number of the unbroken run it was in.
        last_seq: Number of the latest message.
        last_digest: Digest of that message's payload.
    """

    start: int
    last_seq: int
    last_digest: int


class Order:
    """An unbroken run of numbers.

    Attributes:
        start: First number of the run.
        next: The number that continues it; None before anything was heard.
    """

    def __init__(self) -> None:
        self.start = 0
        self.next: int | None = None
        self._known_from = 0
        self._digests: list[int] = []

    @property
    def progress(self) -> Progress | None:
        """For `restore`; None before the first message."""
        if self.next is None or self.next <= self._known_from:
            return None
        last = self.next - 1
        return Progress(self.start, last, self._digests[last % REMEMBERED])

    def judge(self, seq: int, digest: int) -> Verdict:
        if self.next is None:
            return Verdict.FIRST
        if seq == self.next:
            return Verdict.NEXT
        if seq > self.next:
            return Verdict.GAP
        if seq < max(self._known_from, self.next - REMEMBERED):
            return Verdict.OLD
        return Verdict.REPEATED if self._digests[seq % REMEMBERED] == digest else Verdict.OTHER

    def begin(self, seq: int) -> None:
        """A new run, whose first message has this number."""
        self.start = self.next = self._known_from = seq
        if not self._digests:
            self._digests = [0] * REMEMBERED

    def take(self, seq: int, digest: int) -> None:
        """The message that continues the run."""
        self._digests[seq % REMEMBERED] = digest
        self.next = seq + 1

    def forget(self) -> None:
        self.start = self._known_from = 0
        self.next = None

    def restore(self, progress: Progress) -> None:
        """Go on behind a message that another process of ours took in."""
        self.begin(progress.last_seq)
        self.take(progress.last_seq, progress.last_digest)
        self.start = progress.start
