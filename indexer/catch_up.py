"""CatchUp: what a stream did not hear, asked for where the engine replays.

`wants` says from which number on; whoever asks tells what comes (`indexer.replay`). From the first
word of a replay on, and from a hole on, live messages wait until the replay is over, so that all
are applied in the order in which they were sent.
"""

from __future__ import annotations

from indexer import frames
from indexer.frames import Message, Queue
from indexer.order import Verdict
from indexer.story import Story

MAX_WAITING_MESSAGES = 10_000
"""Live messages kept during a replay; those pushed out show as a hole, and are asked for again."""
MAX_WAITING_BYTES = 64 << 20
OVERLAP = 16
"""Messages asked for once more after a lost connection, to prove that it is the same process."""


class CatchUp:
    """
    Args:
        replays: The engine can be asked.

    Attributes:
        wants: The number from which a replay should be asked for; None for none.
        waiting: Live messages that wait for a replay to end.
        holds: Live messages have to wait.
        may_ask: The engine replays, and did not fail to of late.
        excused: What is missing before the live message of this number was asked for, and is gone.
    """

    def __init__(self, story: Story, *, replays: bool) -> None:
        self.wants: int | None = None
        self.waiting = Queue(MAX_WAITING_MESSAGES, MAX_WAITING_BYTES)
        self.holds = False
        self.may_ask = replays
        self.excused: int | None = None
        self._replays = replays
        self._story = story
        self._stats = story.stats
        self._order = story.order
        self._asked: int | None = None
        self._answered = False
        self._waited_seq = -1

    # -- what the stream goes through -----------------------------------------------------------

    def began(self, seq: int) -> None:
        """The first message that is heard of an engine's life has this number."""
        if seq == 0:
            self.wants = None
        elif self.may_ask and self._asked != 0:
            self.wants = 0

    def hold(self, message: Message) -> bool:
        """Ask for what is missing before a message, which waits; False if nobody is asked."""
        if not self.may_ask:
            return False
        if self.wants is None:
            story = self._story
            all_of_it = self._asked == 0 and not story.complete
            expected = self._order.next or 0
            self.wants = 0 if all_of_it else self._proof_from() if story.lost else expected
        self.holds = True
        self.waiting.push_back(message)
        return True

    def reconnected(self) -> None:
        """The connection is there: ask for what happened without it, or before."""
        if not self.may_ask:
            return
        if self._story.lost and self._order.next:
            self.wants = self._proof_from()
            self.holds = True  # another process's next number could be the one expected
        elif self._story.lost or (not self._story.complete and self._asked is None):
            self.wants = 0

    def restarted(self) -> None:
        """The engine is another process than the one heard so far; its next message says more."""
        self._stats.restarts += 1
        self.stop()
        self._story.forget()
        self.wants = 0 if self.may_ask else None

    def stop(self) -> None:
        """A replay that is under way is void, and so is what waits for it."""
        self.holds = False
        self._asked = self.wants = None
        self.waiting.clear()

    def close(self) -> None:
        """Ask for nothing any more."""
        self._replays = self.may_ask = False
        self.stop()

    # -- what is replayed -----------------------------------------------------------------------

    def ask(self) -> int:
        """The number to ask from: what is wanted, or else what the answer so far did not bring."""
        if self.wants is not None:
            self._asked, self._answered = self.wants, False
        elif self._answered or self._asked is None:
            self._asked = self._order.next or 0
        self.wants = None
        return self._asked

    def begins(self, seq: int) -> None:
        """The answer begins with this number.

        Should it reach back to before what is known, it replaces that. Should the messages be gone
        that were to prove the process, nothing proves it.
        """
        order, story = self._order, self._story
        is_older = order.next is None or (seq <= order.start and not story.complete)
        is_unproven = story.lost and order.next is not None and seq >= order.next
        if (self._asked == 0 and is_older) or is_unproven:
            story.forget(is_retold=not is_unproven)
        if seq > (order.next or 0):
            self._stats.truncated += 1
            story.complete = False
            order.begin(seq)
        elif order.next is None:
            story.complete = True
            order.begin(seq)
        self.holds = self._answered = True

    def replayed(self, message: Message) -> Verdict:
        """The next message of an answer; what does not continue what is known is left out."""
        digest = frames.digest(message.payload)
        verdict = self._order.judge(message.seq, digest)
        match verdict:
            case Verdict.NEXT:
                self._stats.replayed += 1
                self._story.take(message, digest)
            case Verdict.REPEATED:
                if self._story.lost:
                    self._story.prove()
            case Verdict.OTHER:
                self.restarted()
            case Verdict.FIRST | Verdict.GAP | Verdict.OLD:
                pass
        return verdict

    def is_empty(self) -> None:
        """The answer has no messages."""
        asked = self._asked
        if self._story.lost and self._order.next:
            self.restarted()  # what was heard last has not come back
        if asked == 0 and not self._order.next:
            self._order.begin(0)
            self._story.complete = True
            self._story.prove()

    def ended(self, *, done: bool) -> None:
        """No more comes: all of it came, or the engine does not answer. What waits is next."""
        story = self._story
        self._asked = self.wants = None
        if done:
            self._stats.replays += 1
            story.in_doubt = story.lost
        else:
            self._stats.replays_failed += 1
            self.may_ask = False
            story.complete = story.complete and not self.holds
        self.excused = self.waiting.first_from(self._order.next or 0)
        self._waited_seq = -1

    def may_ask_again(self) -> None:
        """A replay that failed may be tried again, if it still matters."""
        self.may_ask = self._replays
        self.reconnected()

    # -- what waited ----------------------------------------------------------------------------

    def pop(self) -> Message | None:
        """The next live message that waited; None once none is left, or while a replay is due."""
        if not self.holds or self.wants is not None:
            return None
        if not self.waiting:
            self.holds = False
            return None
        return self.waiting.pop()

    def has_brought(self, message: Message) -> bool:
        """Whether one that waited was replayed too, too long ago to compare.

        Those that wait begin with what the replay brought; numbers that fall are another life.
        """
        previous, self._waited_seq = self._waited_seq, message.seq
        verdict = self._order.judge(message.seq, frames.digest(message.payload))
        return verdict is Verdict.OLD and message.seq > previous

    def _proof_from(self) -> int:
        """Where to ask from so that messages come that were heard before, and what is missing."""
        if not self._story.complete:
            return 0
        return max(self._order.start, (self._order.next or 0) - OVERLAP)
