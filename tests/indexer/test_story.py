"""What is known by a stream, and when it is credited."""

from __future__ import annotations

import pytest

from indexer.block import Holder
from indexer.engines import vllm
from indexer.frames import Message, digest
from indexer.index import BlockIndex
from indexer.intake import Effect, Intake
from indexer.ledger import Ledger
from indexer.order import Progress
from indexer.speculative import Speculative
from indexer.story import Restored, Story
from tests.indexer import make
from tests.indexer.make import E1


class Bench:
    def __init__(self) -> None:
        self.index = BlockIndex(16)
        ledger = Ledger(E1, self.index, Speculative(self.index.bits))
        self.intake = Intake(
            E1, lambda _: ledger, vllm.decode, shared=False, topic_filter="", base_model="tiny"
        )
        self.story = Story(self.intake)

    def take(self, seq: int, *events: object) -> None:
        payload = make.payload(*events)
        self.story.take(Message(seq, payload, b""), digest(payload))

    def credited(self) -> int:
        match = self.index.match(make.chains()).get(E1)
        return match.blocks if match else 0


def test_a_message_moves_the_order_and_fills_the_index() -> None:
    bench = Bench()
    bench.story.order.begin(4)
    bench.take(4, make.stored())
    assert (bench.story.order.next, bench.story.stats.last_seq, bench.credited()) == (5, 4, 4)


def test_a_clear_completes_the_story_and_what_was_left_out_opens_it() -> None:
    bench = Bench()
    bench.story.order.begin(0)
    bench.take(0, make.CLEARED)
    assert bench.story.complete
    bench.take(1, make.stored(block_size=-1))
    assert not bench.story.complete
    bench.story.note(Effect.NONE)
    assert not bench.story.complete


def test_what_is_known_is_kept_uncredited_until_the_engine_is_proven() -> None:
    bench = Bench()
    bench.story.order.begin(0)
    bench.take(0, make.stored())
    bench.story.suspend()
    assert (bench.story.lost, bench.story.in_doubt, bench.credited()) == (True, True, 0)
    bench.story.prove_by_sequence()
    assert (bench.story.lost, bench.credited()) == (False, 4)


def test_another_engine_starts_from_nothing() -> None:
    bench = Bench()
    bench.story.order.begin(0)
    bench.story.complete = True
    bench.take(0, make.stored())
    bench.story.suspend()
    bench.story.forget()
    assert (bench.story.order.next, bench.story.complete, bench.story.lost) == (None, False, False)
    bench.story.order.begin(0)
    bench.take(0, make.stored(make.NAMES[:1]))
    assert bench.credited() == 1


@pytest.mark.parametrize(("process_start", "proven"), [(None, True), (7.0, False)])
def test_a_sequence_proves_a_former_life_only_where_nothing_better_was_noted(
    process_start: float | None, proven: bool
) -> None:
    first, bench = Bench(), Bench()
    first.story.order.begin(0)
    first.take(0, make.stored())
    outline = first.intake._ledger(Holder("x")).outline()
    assert outline is not None
    restored = Restored(Progress(0, 9, 1), True, process_start)
    bench.story.restore(restored, ["tiny"], outline)
    assert (bench.story.order.next, bench.story.lost) == (10, True)
    bench.story.prove_by_sequence()
    assert (bench.story.restored is None, not bench.story.lost) == (proven, proven)
