"""Feed: one engine's event stream, from frames to its holders' ledgers.

A message is three frames: topic, sequence number (8 bytes, big-endian), payload. The numbers count
up by one from 0 at each start of an engine, which is how losses and restarts show. There is no
snapshot, so a stream that was joined late or lost something is `partial` until the engine clears
everything or starts anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

import msgspec

from indexer.block import Holder, Trust
from indexer.engines import vllm
from indexer.events import AllBlocksCleared, Batch, Reason
from indexer.ledger import Ledger

MAX_PAYLOAD_BYTES = 16 << 20
"""A step of 64k prompt tokens takes less than 1 MiB."""
MAX_HELD_MESSAGES = 10_000
"""vLLM's own replay buffer holds as many."""
MAX_HELD_BYTES = 64 << 20
MAX_RANKS = 256
"""Ranks told apart on one shared stream."""
MAX_MODELS = 16
"""Models told apart on one stream."""

_LOSSY = frozenset({Reason.NOT_MSGPACK, Reason.BAD_BATCH, Reason.BAD_EVENT, Reason.COUNT_MISMATCH})
"""Reasons after which the engine may have blocks, or have dropped some, that nobody knows of."""


class Source(msgspec.Struct, frozen=True):
    """Where a holder's events come from.

    Attributes:
        holder: Whose blocks the events tell of.
        endpoint: ZMQ address that the engine's publisher is bound to.
        topic_filter: Prefix of the topics to receive; "" for all.
        base_model: Model of events whose topic names none; None while it is not known.
        shared: Several ranks publish here: the rank in a message tells whose blocks they are.
    """

    holder: Holder
    endpoint: str
    topic_filter: str = ""
    base_model: str | None = None
    shared: bool = False


class FeedStats(msgspec.Struct):
    """What a stream went through.

    Attributes:
        messages: Messages received, of whatever quality.
        events: Events applied.
        duplicates: Messages received twice in a row and dropped.
        gaps: Times the sequence jumped ahead.
        missed: Messages that were jumped over.
        restarts: Times everything was dropped because the engine began anew.
        losses: Times the connection was lost.
        last_seq: Latest sequence number; None before the first message.
        last_ts: When the engine sent the latest batch, in seconds since the epoch.
        lag_s: How long that was before it was applied.
    """

    messages: int = 0
    events: int = 0
    duplicates: int = 0
    gaps: int = 0
    missed: int = 0
    restarts: int = 0
    losses: int = 0
    last_seq: int | None = None
    last_ts: float | None = None
    lag_s: float | None = None


class Feed:
    """
    Attributes:
        trust: How far the index and this stream's engine are known to agree.
        models: Models its events were taken for.
        rejected: Messages and events that were left out, by reason.
    """

    def __init__(
        self,
        source: Source,
        ledger: Callable[[Holder], Ledger],
        decode: Callable[[bytes], Batch] = vllm.decode,
    ) -> None:
        self.source = source
        self.trust = Trust.PARTIAL
        self.stats = FeedStats()
        self.models: set[str] = set()
        self.rejected: Counter[Reason] = Counter()
        self.holders: set[Holder] = {source.holder}
        self._ledger = ledger
        self._decode = decode
        self._base_model = source.base_model
        self._topic = b""
        self._topic_model: str | None = None
        self._last_payload = b""
        self._trust_before_loss = Trust.PARTIAL
        self._held: deque[tuple[int, bytes, float]] = deque()
        self._held_bytes = 0
        self._closed = False

    @property
    def base_model(self) -> str | None:
        """Model of events whose topic names none; setting it applies the messages held for it."""
        return self._base_model

    @base_model.setter
    def base_model(self, model: str | None) -> None:
        self._base_model = model
        if model is not None:
            held, self._held, self._held_bytes = self._held, deque(), 0
            for seq, payload, wall_s in held:
                self._take(model, seq, payload, wall_s)

    def receive(self, frames: Sequence[bytes], wall_s: float) -> None:
        """Take in one message that arrived at `wall_s`, in seconds since the epoch."""
        if self._closed:
            return
        self.stats.messages += 1
        fault = _frame_fault(frames)
        if fault is not None:
            self.rejected[fault] += 1
            return
        topic, number, payload = frames
        seq = int.from_bytes(number, "big")
        if topic != self._topic:
            self._topic, self._topic_model = topic, model_of(topic)
        model = self._topic_model or self._base_model
        if model is None:
            self._hold(seq, payload, wall_s)
        else:
            self._discard_held()
            self._take(model, seq, payload, wall_s)

    def lost(self) -> None:
        """The connection broke: what the engine does from now on may stay unseen."""
        self.stats.losses += 1
        if self.trust is not Trust.STALE and self.stats.last_seq is not None:
            self._trust_before_loss, self.trust = self.trust, Trust.STALE
            for holder in self.holders:
                self._ledger(holder).suspend(self)

    def proven(self) -> None:
        """The engine is still the same process, so what is known of it still holds."""
        if self.trust is Trust.STALE:
            self._found(self._trust_before_loss)

    def restarted(self) -> None:
        """The engine is another process than the one heard so far; its next message says more."""
        self._discard_held()
        self._restart(Trust.PARTIAL)
        self.stats.last_seq = None

    def missed_something(self) -> None:
        """What this stream told of its holder was dropped for a reason that lies elsewhere."""
        self._trust_before_loss = Trust.PARTIAL
        if self.trust is Trust.EXACT:
            self.trust = Trust.PARTIAL

    def close(self) -> None:
        """Take in nothing any more."""
        self._closed = True
        self._held.clear()

    def _take(self, model: str, seq: int, payload: bytes, wall_s: float) -> None:
        if model not in self.models and len(self.models) >= MAX_MODELS:
            self.rejected[Reason.TOO_MANY_MODELS] += 1
            return
        if not self._follow(seq, payload):
            return
        batch = self._decode(payload)
        if batch.ts is not None:
            self.stats.last_ts, self.stats.lag_s = batch.ts, wall_s - batch.ts
        self._apply(model, batch)

    def _apply(self, model: str, batch: Batch) -> None:
        holder = self.source.holder
        rejected = batch.rejected
        if self.source.shared and batch.rank is not None:
            holder = Holder(holder.address, batch.rank)
            if batch.rank >= MAX_RANKS:
                rejected, batch = (Reason.BAD_BATCH,), Batch(())
        self.models.add(model)
        self.holders.add(holder)
        ledger = self._ledger(holder)
        for event in batch.events:
            ledger.apply(event, model)
            if type(event) is AllBlocksCleared and event.tier is None and not self.source.shared:
                self.trust = Trust.EXACT
        self.stats.events += len(batch.events)
        if rejected:
            self.rejected.update(rejected)
            if not _LOSSY.isdisjoint(rejected):
                self.trust = Trust.PARTIAL

    def _follow(self, seq: int, payload: bytes) -> bool:
        """Judge a message by its number; False if it was taken in before."""
        last = self.stats.last_seq
        fresh = Trust.EXACT if seq == 0 else Trust.PARTIAL
        if last is None:
            self.trust = fresh
        elif seq == last + 1:
            self.proven()
        elif seq > last:
            self.stats.gaps += 1
            self.stats.missed += seq - last - 1
            self._found(Trust.PARTIAL)
        elif seq == last and payload == self._last_payload:
            self.stats.duplicates += 1
            return False
        else:
            self._restart(fresh)
        self.stats.last_seq, self._last_payload = seq, payload
        return True

    def _restart(self, trust: Trust) -> None:
        self.stats.restarts += 1
        for holder in self.holders:
            self._ledger(holder).drop()
        self._found(trust)

    def _found(self, trust: Trust) -> None:
        """The engine is heard again, or proven to be there."""
        if self.trust is Trust.STALE:
            for holder in self.holders:
                self._ledger(holder).resume(self)
        self.trust = trust

    def _hold(self, seq: int, payload: bytes, wall_s: float) -> None:
        self._held.append((seq, payload, wall_s))
        self._held_bytes += len(payload)
        while len(self._held) > MAX_HELD_MESSAGES or self._held_bytes > MAX_HELD_BYTES:
            _, oldest, _ = self._held.popleft()
            self._held_bytes -= len(oldest)
            self.rejected[Reason.NO_MODEL] += 1

    def _discard_held(self) -> None:
        """Messages for which no model was known are behind the stream now."""
        if self._held:
            self.rejected[Reason.NO_MODEL] += len(self._held)
            self._held.clear()
            self._held_bytes = 0


def model_of(topic: bytes) -> str | None:
    """The model in a topic of the form `kv@ADDRESS@MODEL`; no other form carries one."""
    parts = topic.decode("utf-8", "replace").split("@")
    if len(parts) != 3 or parts[0] != "kv":
        return None
    return parts[2] or None


def _frame_fault(frames: Sequence[bytes]) -> Reason | None:
    if len(frames) != 3:
        return Reason.BAD_FRAMES
    if len(frames[1]) != 8:
        return Reason.BAD_SEQUENCE
    if len(frames[2]) > MAX_PAYLOAD_BYTES:
        return Reason.TOO_LARGE
    return None
