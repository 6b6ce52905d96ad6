"""Story: what one stream told of an engine so far, and whether that is all there is to tell."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from indexer.frames import Message
from indexer.intake import Effect, Intake
from indexer.order import Order, Progress
from indexer.outline import Outline


class Restored(msgspec.Struct, frozen=True):
    """Where a stream was in a former process of ours.

    Attributes:
        progress: Where it was in the engine's sequence.
        complete: Nothing of the engine's story was missing.
        process_start: When the engine's process started, in seconds since the epoch, if told.
        heard_until: When it was followed last, likewise; None: until it was written down.
    """

    progress: Progress
    complete: bool
    process_start: float | None
    heard_until: float | None = None


class Story:
    """
    Attributes:
        order: Where it is in the engine's sequence.
        stats: What the stream went through.
        complete: Nothing is missing between the engine's start, or a clear, and the latest message
            that was applied.
        lost: The connection broke, and the engine was not proven to be the same since: what is
            known of it is not credited.
        in_doubt: The connection broke, and what the engine said meanwhile may be missing.
        restored: Where what is known comes from a former process of ours, and is not credited
            before the engine is proven to be the one it was heard from; else None.
    """

    def __init__(self, intake: Intake) -> None:
        self.order = Order()
        self.stats = intake.stats
        self.complete = False
        self.lost = False
        self.in_doubt = False
        self.restored: Restored | None = None
        self._intake = intake

    def take(self, message: Message, digest: int) -> None:
        """The message that continues the run."""
        self.order.take(message.seq, digest)
        self.stats.last_seq = message.seq
        self.note(self._intake.take(message))

    def note(self, effect: Effect) -> None:
        """What was applied leaves no doubt about the past, or raises one."""
        if effect is not Effect.NONE:
            if effect is Effect.CLEARED and not self.complete:
                self._intake.doubt_shared()  # a clear is of the engine's own blocks
            self.complete = effect is Effect.CLEARED

    def forget(self, *, is_retold: bool = False) -> None:
        """It is another engine's from now on, or is about to be told anew."""
        if not is_retold:
            self._intake.doubt_shared()
        self.order.forget()
        self.complete = self.in_doubt = False
        self._intake.drop()
        self.prove()

    def suspend(self) -> None:
        """The connection broke: credit nothing until the engine is proven."""
        self.lost = self.in_doubt = True
        self._intake.suspend(self)

    def prove(self) -> None:
        """The engine is still the same process, so what is known of it still holds."""
        self.lost, self.restored = False, None
        self._intake.resume(self)

    def prove_by_sequence(self) -> None:
        """The engine's numbers go on where they were.

        Where a former process of ours noted when the engine's started, only that proves it.
        """
        if self.lost and (self.restored is None or self.restored.process_start is None):
            self.prove()

    def restore(self, restored: Restored, models: Collection[str], outline: Outline) -> None:
        """Go on where a former process of ours stopped; see `Feed.restore`."""
        self.order.restore(restored.progress)
        self.stats.last_seq = restored.progress.last_seq
        self.restored = restored
        self.complete = self._intake.restore(models, outline) and restored.complete
        self.suspend()
