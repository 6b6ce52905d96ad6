"""Feed: one engine's event stream; what was heard, what is missing, and what it is worth.

One that is heard from its start on, or from a clear on, without a hole is `exact`. One that was
joined late or lost something is `partial`: what arrived is credited, and marked. Where the engine
replays, `wants` says from which number on; whoever asks tells what comes (`indexer.replay`). From
the first word of a replay on, and from a hole on, live messages wait until the replay is over, so
that all are applied in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from indexer import frames
from indexer.block import Holder, Trust
from indexer.engines import vllm
from indexer.events import Batch
from indexer.frames import Message, Queue
from indexer.groups import Outline
from indexer.intake import Effect, Intake
from indexer.ledger import Ledger
from indexer.order import Order, Progress, Verdict

MAX_WAITING_MESSAGES = 10_000
"""Live messages kept during a replay; those pushed out show as a hole, and are asked for again."""
MAX_WAITING_BYTES = 64 << 20
OVERLAP = 16
"""Messages asked for once more after a lost connection, to prove that it is the same process."""


class Source(msgspec.Struct, frozen=True):
    """Where a holder's events come from.

    Attributes:
        holder: Whose blocks the events tell of.
        endpoint: ZMQ address that the engine's publisher is bound to.
        topic_filter: Prefix of the topics that count; "" for all.
        base_model: Model of events whose topic names none; None while it is not known.
        shared: Several ranks publish here: the rank in a message tells whose blocks they are.
        replay: ZMQ address that answers requests for past messages; None without one.
        unordered: Several publishers speak here, each with numbers of its own, and nothing tells
            them apart: what they say is never complete, and none of them can be lost.
    """

    holder: Holder
    endpoint: str
    topic_filter: str = ""
    base_model: str | None = None
    shared: bool = False
    replay: str | None = None
    unordered: bool = False


class Restored(msgspec.Struct, frozen=True):
    """Where a stream was in a former process of ours.

    Attributes:
        progress: Where it was in the engine's sequence.
        complete: Nothing of the engine's story was missing.
        process_start: When the engine's process started, in seconds since the epoch, if told.
    """

    progress: Progress
    complete: bool
    process_start: float | None


class Feed:
    """
    Attributes:
        stats: What it went through.
        models: Models its events were taken for.
        rejected: Messages and events that were left out, by reason.
        holders: Whose blocks it told of.
        wants: The number from which a replay should be asked for; None for none.
        order: Where it is in the engine's sequence.
        waiting: Live messages that wait for a replay to end.
        may_ask: The engine replays, and did not fail to of late.
        restored: Where what is known comes from a former process of ours, and is not credited
            before the engine is proven to be the one it was heard from; else None.
    """

    def __init__(
        self,
        source: Source,
        ledger: Callable[[Holder], Ledger],
        decode: Callable[[bytes], Batch] = vllm.decode,
    ) -> None:
        self.source = source
        self._intake = Intake(
            source.holder,
            ledger,
            decode,
            shared=source.shared,
            topic_filter=source.topic_filter,
            base_model=source.base_model,
        )
        self.stats = self._intake.stats
        self.models = self._intake.models
        self.rejected = self._intake.rejected
        self.holders = self._intake.holders
        self.wants: int | None = None
        self.order = Order()
        self.waiting = Queue(MAX_WAITING_MESSAGES, MAX_WAITING_BYTES)
        self.restored: Restored | None = None
        self._complete = False
        self._lost = False
        self._in_doubt = False
        self._asked: int | None = None
        self._answered = False
        self._holds = False
        self._excused_seq: int | None = None
        self._waited_seq = -1
        self.may_ask = source.replay is not None
        self._closed = False

    # -- what it is worth -----------------------------------------------------------------------

    @property
    def trust(self) -> Trust:
        """How far the index and this stream's engine are known to agree."""
        if self._lost:
            return Trust.STALE
        if self._complete and not (self._in_doubt or self._holds or self._intake.unnamed):
            return Trust.EXACT
        return Trust.PARTIAL

    @property
    def is_complete(self) -> bool:
        """Nothing is missing between the engine's start, or a clear, and the latest message."""
        return self._complete and not self._intake.unnamed

    def began_after(self, process_start: float) -> bool:
        """What is known is the story of an engine that started then or later."""
        return self._intake.born is not None and self._intake.born >= process_start

    @property
    def unwanted(self) -> bytes | None:
        """The latest topic, where it is one that the filter does not let through."""
        return self._intake.unwanted

    @property
    def unnamed(self) -> int:
        """Messages that wait until the base model is known."""
        return len(self._intake.unnamed)

    # -- what is heard --------------------------------------------------------------------------

    @property
    def base_model(self) -> str | None:
        """Model of events whose topic names none; setting it applies the messages held for it."""
        return self._intake.base_model

    @base_model.setter
    def base_model(self, model: str | None) -> None:
        self._intake.base_model = model
        while model is not None and self._intake.unnamed:
            self._note(self._intake.take_unnamed())

    def receive(self, parts: Sequence[bytes], wall_s: float, batch: Batch | None = None) -> None:
        """Take in one live message that arrived at `wall_s`, in seconds since the epoch.

        `batch` is its payload, if that was decoded before.
        """
        if self._closed:
            return
        self.stats.messages += 1
        fault = frames.fault_of(parts)
        if fault is not None:
            self.rejected[fault] += 1
            return
        topic, number, payload = parts
        message = Message(int.from_bytes(number, "big"), payload, topic, wall_s, batch)
        if self.source.unordered:
            self._intake.take(message)
        elif self._holds:
            self.waiting.push(message)
        else:
            self._hear(message)

    def connected(self) -> None:
        """The connection is there, for the first time or again."""
        self.stats.connections += 1
        self._want_what_is_missing()

    def lost(self) -> None:
        """The connection broke: what the engine does from now on may stay unseen."""
        self.stats.losses += 1
        self._stop_holding()
        if self.order.next is not None:
            self._suspend()

    def proven(self) -> None:
        """The engine is still the same process, so what is known of it still holds."""
        self._lost, self.restored = False, None
        self._intake.resume(self)

    def restarted(self) -> None:
        """The engine is another process than the one heard so far; its next message says more."""
        self.stats.restarts += 1
        self._stop_holding()
        self._forget()
        self.wants = 0 if self.may_ask else None

    def missed_something(self) -> None:
        """What this stream told of its holder was dropped for a reason that lies elsewhere."""
        self._complete = False

    def close(self) -> None:
        """Take in nothing any more."""
        self._closed = True
        self._stop_holding()
        self._intake.unnamed.clear()

    def restore(self, restored: Restored, models: Collection[str], outline: Outline) -> None:
        """Go on where a former process of ours stopped; stale until the engine is proven."""
        self.order.restore(restored.progress)
        self.stats.last_seq = restored.progress.last_seq
        self._complete = restored.complete
        self.restored = restored
        self._intake.restore(models, outline)
        self._suspend()

    # -- what is replayed -----------------------------------------------------------------------

    def ask(self) -> int:
        """The number to ask from: what is wanted, or else what the answer so far did not bring."""
        if self.wants is not None:
            self._asked, self._answered = self.wants, False
        elif self._answered or self._asked is None:
            self._asked = self.order.next or 0
        self.wants = None
        return self._asked

    def replay_begins(self, seq: int) -> None:
        """The answer begins with this number.

        Should it reach back to before what is known, it replaces that. Should the messages be gone
        that were to prove the process, nothing proves it.
        """
        order = self.order
        is_older = order.next is None or (seq <= order.start and not self._complete)
        is_unproven = self._lost and order.next is not None and seq >= order.next
        if (self._asked == 0 and is_older) or is_unproven:
            self._forget()
        if seq > (order.next or 0):
            self.stats.truncated += 1
            self._complete = False
            order.begin(seq)
        elif order.next is None:
            self._complete = True
            order.begin(seq)
        self._holds = self._answered = True

    def replayed(self, message: Message) -> Verdict:
        """The next message of an answer; what does not continue what is known is left out."""
        digest = frames.digest(message.payload)
        verdict = self.order.judge(message.seq, digest)
        match verdict:
            case Verdict.NEXT:
                self.stats.replayed += 1
                self._take(message, digest)
            case Verdict.REPEATED:
                if self._lost:
                    self.proven()
            case Verdict.OTHER:
                self.restarted()
            case Verdict.FIRST | Verdict.GAP | Verdict.OLD:
                pass
        return verdict

    def replay_is_empty(self) -> None:
        """The answer has no messages."""
        asked = self._asked
        if self._lost and self.order.next:
            self.restarted()  # what was heard last has not come back
        if asked == 0 and not self.order.next:
            self.order.begin(0)
            self._complete = True
            self.proven()

    def replay_ended(self, *, done: bool) -> None:
        """No more comes: all of it came, or the engine does not answer. `hear_waiting` is next."""
        self._asked = self.wants = None
        if done:
            self.stats.replays += 1
            self._in_doubt = self._lost
        else:
            self.stats.replays_failed += 1
            self.may_ask = False
            self._complete = self._complete and not self._holds
        # What is missing before the first of those that wait was asked for, and is gone.
        self._excused_seq = self.waiting.first_from(self.order.next or 0)
        self._waited_seq = -1

    def hear_waiting(self) -> bool:
        """Take in one of the messages that waited; False once none is left, or a hole shows.

        They begin with what the replay brought, too.
        """
        if not self._holds or self.wants is not None:
            return False
        if not self.waiting:
            self._holds = False
            return False
        message = self.waiting.pop()
        verdict = self.order.judge(message.seq, frames.digest(message.payload))
        previous, self._waited_seq = self._waited_seq, message.seq
        if verdict is Verdict.OLD and message.seq > previous:
            self.stats.duplicates += 1
            return True
        self._hear(message, excuse_gap=message.seq == self._excused_seq)
        return True

    def may_ask_again(self) -> None:
        """A replay that failed may be tried again, if it still matters."""
        self.may_ask = self.source.replay is not None
        self._want_what_is_missing()

    # -- inside ---------------------------------------------------------------------------------

    def _hear(self, message: Message, *, excuse_gap: bool = False) -> None:
        """Judge a live message whose turn it is, and take it in."""
        digest = frames.digest(message.payload)
        if message.seq == self.order.next and not self._lost:
            self._in_doubt = False
            self._take(message, digest)
            return  # by far the most are like this
        match self.order.judge(message.seq, digest):
            case Verdict.NEXT:
                self._in_doubt = False
                self._prove_by_sequence()
                self._take(message, digest)
            case Verdict.GAP:
                self._skip_to(message, digest, excused=excuse_gap)
            case Verdict.REPEATED:
                self.stats.duplicates += 1
            case Verdict.FIRST:
                self._begin(message, digest)
            case Verdict.OLD | Verdict.OTHER:
                self.stats.restarts += 1
                self._forget()
                self._begin(message, digest)

    def _want_what_is_missing(self) -> None:
        if not self.may_ask or self._closed:
            return
        if self._lost and self.order.next:
            self.wants = self._proof_from()
            self._holds = True  # another process's next number could be the one expected
        elif self._lost or (not self._complete and self._asked is None):
            self.wants = 0

    def _begin(self, message: Message, digest: int) -> None:
        """The first message that is heard of an engine's life."""
        self.order.begin(message.seq)
        self._complete, self._in_doubt = message.seq == 0, False
        if message.seq == 0:
            self.wants = None
        elif self.may_ask and self._asked != 0:
            self.wants = 0
        self._take(message, digest)

    def _skip_to(self, message: Message, digest: int, *, excused: bool) -> None:
        """Some messages before this one were not heard."""
        expected = self.order.next or 0
        if not excused:
            self.stats.gaps += 1
            self.stats.missed += message.seq - expected
        if self.may_ask and not excused:
            if self.wants is None:
                all_of_it = self._asked == 0 and not self._complete
                self.wants = 0 if all_of_it else self._proof_from() if self._lost else expected
            self._holds = True
            self.waiting.push_back(message)
            return
        self._complete = self._in_doubt = False
        self._prove_by_sequence()
        self.order.begin(message.seq)
        self._take(message, digest)

    def _take(self, message: Message, digest: int) -> None:
        """Take in the message that continues the run."""
        self.order.take(message.seq, digest)
        self.stats.last_seq = message.seq
        self._note(self._intake.take(message))

    def _note(self, effect: Effect) -> None:
        if effect is not Effect.NONE:
            self._complete = effect is Effect.CLEARED

    def _prove_by_sequence(self) -> None:
        if self._lost and (self.restored is None or self.restored.process_start is None):
            self.proven()

    def _proof_from(self) -> int:
        """Where to ask from so that messages come that were heard before, and what is missing."""
        if not self._complete:
            return 0
        return max(self.order.start, (self.order.next or 0) - OVERLAP)

    def _forget(self) -> None:
        self.order.forget()
        self._complete = self._in_doubt = False
        self._intake.drop()
        self.proven()

    def _suspend(self) -> None:
        self._lost = self._in_doubt = True
        self._intake.suspend(self)

    def _stop_holding(self) -> None:
        self._holds = False
        self._asked = self.wants = None
        self.waiting.clear()
