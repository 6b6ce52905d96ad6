"""Intake: applies a stream's messages, in order, to the ledgers of those they tell of."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

import msgspec

from indexer.block import Holder
from indexer.events import AllBlocksCleared, Batch, Reason
from indexer.frames import Message, Queue, model_of
from indexer.ledger import Ledger
from indexer.outline import Outline
from indexer.rejects import Rejects

MAX_UNNAMED_MESSAGES = 10_000
"""vLLM's own replay buffer holds as many."""
MAX_UNNAMED_BYTES = 64 << 20
MAX_RANKS = 256
"""Ranks told apart on one shared stream."""
MAX_MODELS = 16
"""Models told apart on one stream."""

_LOSSY = frozenset(
    {
        Reason.NOT_MSGPACK,
        Reason.BAD_BATCH,
        Reason.BAD_EVENT,
        Reason.COUNT_MISMATCH,
        Reason.BIGRAM_TOKENS,
        Reason.PARTIAL_BLOCK,
    }
)
"""Reasons after which the engine may have blocks, or have dropped some, that nobody knows of."""


class Effect(enum.Enum):
    """What a message means for the doubt about what came before."""

    NONE = enum.auto()
    CLEARED = enum.auto()
    """The engine has nothing but what follows."""
    LOSSY = enum.auto()
    """Something in it, or before it, was left out."""


class FeedStats(msgspec.Struct):
    """What a stream went through.

    Attributes:
        messages: Live messages received, of whatever quality.
        events: Events applied.
        duplicates: Messages received again and dropped.
        gaps: Times the sequence jumped ahead.
        missed: Messages that were jumped over; a replay may have brought them later.
        restarts: Times everything was dropped because the engine began anew.
        connections: Times a connection came about.
        losses: Times one was lost.
        replays: Replays that came to their end.
        replays_failed: Replays that did not.
        replayed: Messages that came by replays.
        truncated: Replays whose beginning the engine no longer had.
        last_seq: Latest sequence number; None before the first message.
        last_ts: When the engine sent the latest batch, in seconds since the epoch.
        lag_s: How long that was before it was received; of live messages only.
        heard_at: When the latest live message came, in seconds since the epoch.
    """

    messages: int = 0
    events: int = 0
    duplicates: int = 0
    gaps: int = 0
    missed: int = 0
    restarts: int = 0
    connections: int = 0
    losses: int = 0
    replays: int = 0
    replays_failed: int = 0
    replayed: int = 0
    truncated: int = 0
    last_seq: int | None = None
    last_ts: float | None = None
    lag_s: float | None = None
    heard_at: float | None = None


class Intake:
    """
    Args:
        shared: The rank in a message tells whose blocks they are; else they are `holder`'s.
        fixed_model: The model that a topic names does not count.

    Attributes:
        base_model: Model of messages whose topic names none.
        models: Models that messages were taken for.
        holders: Whose blocks they told of.
        rejected: Messages and events that were left out, by reason.
        unnamed: Messages that wait for `base_model` to become known.
        unwanted: The latest topic, where it is one that the filter does not let through.
        stats: What the stream went through; only what is applied is counted here.
        born: When the engine sent its first message, where that was taken in.
    """

    def __init__(
        self,
        holder: Holder,
        ledger: Callable[[Holder], Ledger],
        decode: Callable[[bytes], Batch],
        *,
        shared: bool,
        topic_filter: str,
        base_model: str | None,
        fixed_model: bool = False,
    ) -> None:
        self.base_model = base_model
        self.models: set[str] = set()
        self.holders: set[Holder] = {holder}
        self.rejected = Rejects()
        self.unwanted: bytes | None = None
        self.unnamed = Queue(MAX_UNNAMED_MESSAGES, MAX_UNNAMED_BYTES)
        self.stats = FeedStats()
        self.born: float | None = None
        self._holder = holder
        self._ledger = ledger
        self._decode = decode
        self._shared = shared
        self._filter = topic_filter.encode()
        self._fixed_model = fixed_model
        self._topic: bytes | None = None
        self._model: str | None = None
        self._is_wanted = True

    def take(self, message: Message) -> Effect:
        """The next message."""
        if message.topic is not None and message.topic != self._topic:
            self._topic = message.topic
            self._model = None if self._fixed_model else model_of(message.topic)
            self._is_wanted = message.topic.startswith(self._filter)
            self.unwanted = None if self._is_wanted else message.topic
        if not self._is_wanted:
            self.rejected[Reason.FILTERED] += 1
            return Effect.LOSSY
        model = self._model or self.base_model
        if model is None:
            pushed_out = self.unnamed.push(message)
            return self._left_out(pushed_out)
        left_out = self.discard_unnamed() if self.unnamed else Effect.NONE
        effect = self._apply(model, message)
        return effect if effect is not Effect.NONE else left_out

    def take_unnamed(self) -> Effect:
        """The oldest of those that waited for the base model, which is known now."""
        message = self.unnamed.pop()
        return Effect.NONE if self.base_model is None else self._apply(self.base_model, message)

    def discard_unnamed(self) -> Effect:
        """Messages for which no model was known are behind the stream now."""
        return self._left_out(self.unnamed.clear())

    def drop(self) -> None:
        """Forget all that was told: the engine began anew, or is about to tell it again."""
        self.discard_unnamed()
        self.rejected.begin_anew()
        self.born = None
        for holder in self.holders:
            self._ledger(holder).drop()

    def doubt_shared(self) -> None:
        """Nobody can tell any more what became of what was told of shared storage."""
        for holder in self.holders:
            self._ledger(holder).doubt_shared()

    def restore(self, models: Collection[str], outline: Outline) -> bool:
        """Know what was told in a former process of ours; False if not all had room."""
        self.models.update(models)
        return self._ledger(self._holder).restore(outline)

    def suspend(self, cause: object) -> None:
        """Credit nothing that was told until `resume`."""
        for holder in self.holders:
            self._ledger(holder).suspend(cause)

    def resume(self, cause: object) -> None:
        for holder in self.holders:
            self._ledger(holder).resume(cause)

    def _left_out(self, count: int) -> Effect:
        if not count:
            return Effect.NONE
        self.rejected[Reason.NO_MODEL] += count
        return Effect.LOSSY

    def _apply(self, model: str, message: Message) -> Effect:
        if model not in self.models and len(self.models) >= MAX_MODELS:
            self.rejected[Reason.TOO_MANY_MODELS] += 1
            return Effect.LOSSY
        batch = message.batch or self._decode(message.payload)
        if batch.ts is not None:
            self._time(message, batch.ts)
        holder = self._holder
        if self._shared and batch.rank is not None:
            holder = Holder(holder.address, batch.rank)
            if batch.rank >= MAX_RANKS:
                holder, batch = self._holder, Batch((), rejected=(Reason.BAD_BATCH,))
        self.models.add(model)
        if holder is not self._holder:
            self.holders.add(holder)
        return self._apply_to(self._ledger(holder), batch, model)

    def _time(self, message: Message, ts: float) -> None:
        self.stats.last_ts = ts
        if message.wall_s is not None:
            self.stats.lag_s = message.wall_s - ts
        if message.seq == 0:
            self.born = ts

    def _apply_to(self, ledger: Ledger, batch: Batch, model: str) -> Effect:
        effect = Effect.NONE
        for event in batch.events:
            ledger.apply(event, model)
            # On a shared stream a clear tells of one rank only.
            if type(event) is AllBlocksCleared and event.tier is None and not self._shared:
                effect = Effect.CLEARED
        self.stats.events += len(batch.events)
        if batch.rejected:
            self.rejected.update(batch.rejected)
            if not _LOSSY.isdisjoint(batch.rejected):
                effect = Effect.LOSSY
        return effect
