"""Snapshots: what is kept, what is refused, and when what was kept is credited again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indexer import frames, snapshot
from indexer.block import Holder, Trust
from indexer.feed import Feed, Source
from indexer.frames import Message
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from indexer.snapshot import MAX_AGE_S, NotUsable
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, NAMES


def opened(index: PrefixIndex, holder: Holder = E1, **fields: Any) -> Feed:
    return index.open(Source(holder, f"tcp://{holder.address}", **fields))


def warm(holder: Holder = E1, **fields: Any) -> PrefixIndex:
    index = PrefixIndex(16)
    feed = opened(index, holder)
    feed.receive(make.frames(0, make.stored(**fields)), 1.0)
    feed.receive(make.frames(1, make.removed(NAMES[3:]), ts=2.0), 1.0)
    return index


def kept(index: PrefixIndex, process_start: float | None = 5.0, written_at: float = 100.0) -> bytes:
    return snapshot.encode(snapshot.take(index, lambda _: process_start), written_at)


def restored(data: bytes, **fields: Any) -> tuple[PrefixIndex, Feed]:
    index = PrefixIndex(16)
    feed = opened(index, **fields)
    found = snapshot.decode(data, 16, 100.0)
    snapshot.restore(index, found, snapshot.matching(found, index.feeds()))
    return index, feed


def score(index: PrefixIndex, holder: Holder = E1) -> int:
    match = index.match([BASE], pack(make.prompt()), 0.0).matches.get(holder)
    return match.blocks if match else 0


def test_what_was_kept_is_credited_once_the_process_is_proven() -> None:
    index, feed = restored(kept(warm()))
    assert (score(index), feed.trust, feed.stats.last_seq) == (0, Trust.STALE, 1)
    assert feed.models == {"tiny"}
    feed.proven()
    assert (score(index), feed.trust) == (3, Trust.PARTIAL)
    feed.receive(make.frames(2, make.removed(NAMES[2:3])), 1.0)
    assert (score(index), feed.trust) == (2, Trust.EXACT)


def test_a_number_in_sequence_is_no_proof_where_the_start_of_the_process_is_known() -> None:
    index, feed = restored(kept(warm()))
    feed.receive(make.frames(2), 1.0)
    assert (score(index), feed.trust) == (0, Trust.STALE)
    feed.proven()
    assert (score(index), feed.trust) == (3, Trust.EXACT)


def test_where_the_start_is_not_known_the_sequence_is_the_proof() -> None:
    index, feed = restored(kept(warm(), process_start=None))
    assert score(index) == 0
    feed.receive(make.frames(2), 1.0)
    assert (score(index), feed.trust) == (3, Trust.EXACT)


@pytest.mark.parametrize("process_start", [5.0, None])
def test_a_sequence_that_fell_is_another_process(process_start: float | None) -> None:
    index, feed = restored(kept(warm(), process_start))
    feed.receive(make.frames(0, make.stored(NAMES[:1]), ts=9.0), 1.0)
    assert (score(index), feed.trust, feed.restored) == (1, Trust.EXACT, None)


def test_a_gap_since_then_leaves_what_was_kept_partial() -> None:
    index, feed = restored(kept(warm(), process_start=None))
    feed.receive(make.frames(9), 1.0)
    assert (score(index), feed.trust) == (3, Trust.PARTIAL)


def test_what_is_replayed_proves_the_process_and_fills_in_the_rest() -> None:
    index, feed = restored(kept(warm()), replay="tcp://r")
    feed.connected()
    assert feed.catch_up.ask() == 0
    feed.catch_up.begins(0)
    for seq, event in enumerate((make.stored(), make.removed(NAMES[3:]), make.removed(NAMES[2:3]))):
        parts = make.frames(seq, event, ts=seq + 1.0)
        message = frames.answer([b"", *parts])
        assert isinstance(message, Message)
        feed.catch_up.replayed(message)
    feed.catch_up.ended(done=True)
    while feed.hear_waiting():
        pass
    assert (score(index), feed.trust, feed.stats.replayed) == (2, Trust.EXACT, 1)


def test_a_removal_that_names_its_group_finds_what_was_kept() -> None:
    grouped: dict[str, Any] = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    index = PrefixIndex(16)
    opened(index).receive(make.frames(0, make.stored(**grouped)), 1.0)
    again, feed = restored(kept(index))
    feed.proven()
    feed.receive(make.frames(1, make.removed(NAMES[2:], group_idx=0)), 1.0)
    assert score(again) == 2


def test_a_hybrid_engine_is_credited_what_all_its_groups_have() -> None:
    full: dict[str, Any] = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    window: dict[str, Any] = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window"}
    window["kv_cache_spec_sliding_window"] = 32
    index = PrefixIndex(16)
    opened(index).receive(
        make.frames(0, make.stored(**full), make.stored(NAMES[:2], make.prompt(2), **window)), 1.0
    )
    again, feed = restored(kept(index))
    feed.proven()
    assert score(again) == score(index) == 2
    for each, stream in ((again, feed), (index, index.feeds()[0])):
        stream.receive(make.frames(1, make.removed(NAMES[1:2], group_idx=1)), 1.0)
        assert score(each) == 1


def test_the_size_of_the_engines_blocks_comes_along() -> None:
    index = PrefixIndex(16)
    opened(index).receive(make.frames(0, make.stored([1, 2], make.prompt(4), block_size=32)), 1.0)
    again, feed = restored(kept(index))
    feed.proven()
    assert again.state(E1).block_size == 32
    assert score(again) == 4
    assert again.match([BASE], pack(make.prompt(4)[:48]), 0.0).matches[E1].blocks == 2


def test_what_was_incomplete_stays_so() -> None:
    index = PrefixIndex(16)
    opened(index).receive(make.frames(7, make.stored()), 1.0)
    again, feed = restored(kept(index))
    feed.receive(make.frames(8), 1.0)
    feed.proven()
    assert (score(again), feed.trust) == (4, Trust.PARTIAL)


def test_streams_that_cannot_be_gone_on_with_are_left_out() -> None:
    index = PrefixIndex(16)
    lost, shared, small, late = (Holder(f"e{n}") for n in range(4))
    opened(index, lost).receive(make.frames(0, make.stored()), 1.0)
    index.feeds()[0].lost()
    opened(index, shared, shared=True).receive(make.frames(0, make.stored()), 1.0)
    halves = make.stored([1], make.prompt(1)[:8], block_size=8)
    opened(index, small).receive(make.frames(0, halves), 1.0)
    opened(index, late)
    assert snapshot.decode(kept(index), 16, 100.0).streams == []


def test_only_the_same_stream_of_the_same_holder_is_restored() -> None:
    data = kept(warm())
    index, other = restored(data, holder=E2)
    assert (other.trust, index.stats().sizes["blocks"]) == (Trust.PARTIAL, 0)
    index = PrefixIndex(16)
    moved = index.open(Source(E1, "tcp://elsewhere"))
    found = snapshot.decode(data, 16, 100.0)
    assert snapshot.restore(index, found, snapshot.matching(found, [moved])) == 0


def test_a_stream_that_was_heard_already_is_left_alone() -> None:
    found = snapshot.decode(kept(warm()), 16, 100.0)
    index = PrefixIndex(16)
    opened(index).receive(make.frames(0, make.stored(NAMES[:1])), 1.0)
    assert snapshot.restore(index, found, snapshot.matching(found, index.feeds())) == 0


def test_what_the_budget_has_no_room_for_makes_it_partial() -> None:
    data = kept(warm(), process_start=None)
    index = PrefixIndex(16, index_bytes=500)
    feed = opened(index)
    found = snapshot.decode(data, 16, 100.0)
    snapshot.restore(index, found, snapshot.matching(found, index.feeds()))
    feed.receive(make.frames(2), 1.0)
    assert 0 < score(index) < 3
    assert feed.trust is Trust.PARTIAL


def _with_format(data: bytes) -> bytes:
    at = len(snapshot.MAGIC)
    return data[:at] + b"\xff" + data[at + 1 :]


@pytest.mark.parametrize(
    ("spoil", "block_size", "now", "reason"),
    [
        (lambda data: b"", 16, 100.0, "not a snapshot"),
        (lambda data: b"x" + data, 16, 100.0, "not a snapshot"),
        (_with_format, 16, 100.0, "another format"),
        (lambda data: data[:-1], 16, 100.0, "damaged"),
        (lambda data: data[:-9] + b"\0" + data[-8:], 16, 100.0, "damaged"),
        (lambda data: data, 32, 100.0, "16 tokens"),
        (lambda data: data, 16, 100.0 + MAX_AGE_S + 1, "s old"),
        (lambda data: data, 16, 99.0, "s old"),
    ],
    ids=["empty", "foreign", "format", "cut", "flipped", "block size", "stale", "from the future"],
)
def test_what_is_not_usable_is_named(spoil: Any, block_size: int, now: float, reason: str) -> None:
    with pytest.raises(NotUsable, match=reason):
        snapshot.decode(spoil(kept(warm())), block_size, now)


def test_what_others_keep_for_an_engine_is_not_restored() -> None:
    def pooled() -> PrefixIndex:
        index = PrefixIndex(16, pools=True)
        assert index.pooling is not None
        index.pooling.elsewhere[E1] = frozenset({"cpu"})
        return index

    was, index = pooled(), pooled()
    opened(was).receive(make.frames(0, make.stored(NAMES[:2])), 1.0)
    below = was.open(Source(E1, "tcp://below", base_model="tiny", tiers=("cpu",)))
    told = {"event_type": "stored", "seq_hashes": [*NAMES[:2]]}
    below.receive([b"", bytes(8), msgspec.msgpack.encode([0, [told], 0])], 1.0)
    assert was.blocks.blocks(E1) == {"gpu": 2, "cpu": 2}
    opened(index)
    found = snapshot.decode(kept(was), 16, 100.0)
    assert len(found.streams) == 1
    snapshot.restore(index, found, snapshot.matching(found, index.feeds()))
    assert index.blocks.blocks(E1) == {"gpu": 2}
