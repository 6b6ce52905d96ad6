"""Feed: one engine's event stream; what was heard, what is missing, and what it is worth.

One that is heard from its start on, or from a clear on, without a hole is `exact`. One that was
joined late or lost something is `partial`: what arrived is credited, and marked. What is known by
it is its `Story`; what is missing, and comes back where the engine replays, is its `CatchUp`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from indexer import frames
from indexer.block import Holder, Trust
from indexer.catch_up import CatchUp
from indexer.engines import vllm
from indexer.events import Batch
from indexer.frames import Message
from indexer.intake import Intake
from indexer.ledger import Ledger
from indexer.order import Order, Verdict
from indexer.outline import Outline
from indexer.story import Restored, Story


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
        tiers: Tiers it tells of where that is not an engine's own memory, upper first.
        fixed_model: Events are of the base model, whatever their topic says.
    """

    holder: Holder
    endpoint: str
    topic_filter: str = ""
    base_model: str | None = None
    shared: bool = False
    replay: str | None = None
    unordered: bool = False
    tiers: tuple[str, ...] = ()
    fixed_model: bool = False


class Feed:
    """
    Attributes:
        stats: What it went through.
        models: Models its events were taken for.
        rejected: Messages and events that were left out, by reason.
        holders: Whose blocks it told of.
        order: Where it is in the engine's sequence.
        catch_up: What is asked for, and what waits for it.
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
            fixed_model=source.fixed_model,
        )
        self._story = Story(self._intake)
        self.stats = self._intake.stats
        self.models = self._intake.models
        self.rejected = self._intake.rejected
        self.holders = self._intake.holders
        self.order: Order = self._story.order
        self.catch_up = CatchUp(self._story, replays=source.replay is not None)
        self._closed = False

    # -- what it is worth -----------------------------------------------------------------------

    @property
    def trust(self) -> Trust:
        """How far the index and this stream's engine are known to agree."""
        if self._story.lost:
            return Trust.STALE
        if self.is_complete and not (self._story.in_doubt or self.catch_up.holds):
            return Trust.EXACT
        return Trust.PARTIAL

    @property
    def is_complete(self) -> bool:
        """Nothing is missing between the engine's start, or a clear, and the latest message."""
        return self._story.complete and not self._intake.unnamed

    @property
    def restored(self) -> Restored | None:
        """What is known comes from there, and waits for proof; None where it does not."""
        return self._story.restored

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
            self._story.note(self._intake.take_unnamed())

    def receive(self, parts: Sequence[bytes], wall_s: float, batch: Batch | None = None) -> None:
        """Take in one live message that arrived at `wall_s`, in seconds since the epoch.

        `batch` is its payload, if that was decoded before.
        """
        if self._closed:
            return
        self.stats.messages += 1
        self.stats.heard_at = wall_s
        fault = frames.fault_of(parts)
        if fault is not None:
            self.rejected[fault] += 1
            return
        topic, number, payload = parts
        message = Message(int.from_bytes(number, "big"), payload, topic, wall_s, batch)
        if self.source.unordered:
            self._intake.take(message)
        elif self.catch_up.holds:
            self.catch_up.waiting.push(message)
        else:
            self._hear(message)

    def hear_waiting(self) -> bool:
        """Take in one of the messages that waited; False once none is left, or a hole shows."""
        message = self.catch_up.pop()
        if message is None:
            return False
        if self.catch_up.has_brought(message):
            self.stats.duplicates += 1
        else:
            self._hear(message, excuse_gap=message.seq == self.catch_up.excused)
        return True

    def connected(self) -> None:
        """The connection is there, for the first time or again."""
        self.stats.connections += 1
        if self._story.in_doubt and not self._story.lost:
            self._story.suspend()  # what was proven meanwhile may have ended before this connection
        self.catch_up.reconnected()

    def lost(self) -> None:
        """The connection broke: what the engine does from now on may stay unseen."""
        self.stats.losses += 1
        self.catch_up.stop()
        if self.order.next is not None:
            self._story.suspend()

    def proven(self) -> None:
        """The engine is still the same process, so what is known of it still holds."""
        self._story.prove()

    def restarted(self) -> None:
        """The engine is another process than the one heard so far; its next message says more."""
        self.catch_up.restarted()

    def missed_something(self) -> None:
        """What this stream told of its holder was dropped for a reason that lies elsewhere."""
        self._story.complete = False

    def close(self) -> None:
        """Take in nothing any more."""
        self._closed = True
        self.catch_up.close()
        self._intake.unnamed.clear()

    def restore(self, restored: Restored, models: Collection[str], outline: Outline) -> None:
        """Go on where a former process of ours stopped; stale until the engine is proven."""
        self._story.restore(restored, models, outline)

    # -- inside ---------------------------------------------------------------------------------

    def _hear(self, message: Message, *, excuse_gap: bool = False) -> None:
        """Judge a live message whose turn it is, and take it in."""
        story = self._story
        digest = frames.digest(message.payload)
        if message.seq == self.order.next and not story.lost:
            story.in_doubt = False
            story.take(message, digest)
            return  # by far the most are like this
        match self.order.judge(message.seq, digest):
            case Verdict.NEXT:
                story.in_doubt = False
                story.prove_by_sequence()
                story.take(message, digest)
            case Verdict.GAP:
                self._skip_to(message, digest, excused=excuse_gap)
            case Verdict.REPEATED:
                self.stats.duplicates += 1
            case Verdict.FIRST:
                self._begin(message, digest)
            case Verdict.OLD | Verdict.OTHER:
                self.stats.restarts += 1
                story.forget()
                self._begin(message, digest)

    def _begin(self, message: Message, digest: int) -> None:
        """The first message that is heard of an engine's life."""
        story = self._story
        self.order.begin(message.seq)
        story.complete, story.in_doubt = message.seq == 0, False
        self.catch_up.began(message.seq)
        story.take(message, digest)

    def _skip_to(self, message: Message, digest: int, *, excused: bool) -> None:
        """Some messages before this one were not heard."""
        if not excused:
            self.stats.gaps += 1
            self.stats.missed += message.seq - (self.order.next or 0)
            if self.catch_up.hold(message):
                return
        story = self._story
        story.complete = story.in_doubt = False
        story.prove_by_sequence()
        self.order.begin(message.seq)
        story.take(message, digest)
