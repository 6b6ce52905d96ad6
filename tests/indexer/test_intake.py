"""What a message means for the doubt about what came before; the rest shows in the feed's tests."""

from __future__ import annotations

from typing import Any

from indexer.block import Holder
from indexer.engines import vllm
from indexer.events import Reason
from indexer.frames import Message
from indexer.index import BlockIndex
from indexer.intake import Effect, Intake
from indexer.ledger import Ledger
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import E1, TOPIC


def intake(**fields: Any) -> Intake:
    index = BlockIndex(16)
    ledgers: dict[Holder, Ledger] = {}
    given: dict[str, Any] = {"shared": False, "topic_filter": "", "base_model": None, **fields}
    return Intake(
        E1,
        lambda h: ledgers.setdefault(h, Ledger(h, index, Speculative(index.bits))),
        vllm.decode,
        **given,
    )


def message(*events: object, topic: bytes | None = TOPIC, seq: int = 0, **fields: Any) -> Message:
    return Message(seq, make.payload(*events), topic, **fields)


def test_a_clear_ends_the_doubt_and_a_loss_begins_it() -> None:
    taken = intake()
    assert taken.take(message(make.stored())) is Effect.NONE
    assert taken.take(message(make.CLEARED)) is Effect.CLEARED
    assert taken.take(message({**make.CLEARED, "medium": "CPU"})) is Effect.NONE
    assert taken.take(message(7)) is Effect.LOSSY
    assert taken.take(message(make.CLEARED, 7)) is Effect.LOSSY


def test_on_a_shared_stream_a_clear_tells_of_one_rank_only() -> None:
    assert intake(shared=True).take(message(make.CLEARED)) is Effect.NONE


def test_a_topic_that_is_filtered_out_is_counted_and_leaves_doubt() -> None:
    taken = intake(topic_filter="kv@")
    assert taken.take(message(make.stored(), topic=b"other")) is Effect.LOSSY
    assert (taken.rejected, taken.stats.events) == ({Reason.FILTERED: 1}, 0)
    assert taken.take(message(make.stored())) is Effect.NONE


def test_a_message_without_a_topic_is_like_the_one_before() -> None:
    taken = intake(topic_filter="kv@")
    taken.take(message(make.stored()))
    taken.take(message(make.stored(), topic=None))
    assert (taken.models, taken.stats.events, taken.unnamed.last_seq) == ({"tiny"}, 2, None)


def test_a_payload_that_was_decoded_before_is_not_decoded_again() -> None:
    taken = intake()
    batch = vllm.decode(make.payload(make.stored()))
    taken.take(Message(0, b"not msgpack", TOPIC, batch=batch))
    assert (taken.stats.events, taken.rejected) == (1, {})


def test_only_live_messages_have_a_lag() -> None:
    taken = intake()
    taken.take(message(make.stored(), seq=0, wall_s=1.5))
    taken.take(message(make.stored(), seq=1))
    assert (taken.stats.lag_s, taken.stats.last_ts, taken.born) == (0.5, 1.0, 1.0)
    taken.drop()
    assert taken.born is None


def test_stores_wait_for_others_only_where_they_may() -> None:
    taken = intake()
    ledger = taken._ledger(E1)
    taken.take(message(make.stored([1], make.prompt(1))))
    assert ledger._index.blocks(E1) == {"gpu": 1}
    taken.defer()
    taken.take(message(make.stored([2], make.prompt(1, 16), parent=1)))
    assert ledger._index.blocks(E1) == {"gpu": 1}
    taken.settle()
    assert ledger._index.blocks(E1) == {"gpu": 2}


def test_what_waits_comes_before_a_removal_and_before_a_drop() -> None:
    taken = intake()
    index = taken._ledger(E1)._index
    taken.defer()
    taken.take(message(make.stored([1, 2], make.prompt(2))))
    taken.take(message(make.removed([2])))
    assert index.blocks(E1) == {"gpu": 1}
    taken.take(message(make.stored([3], make.prompt(1, 640))))
    taken.drop()
    taken.settle()
    assert index.blocks(E1) == {}
