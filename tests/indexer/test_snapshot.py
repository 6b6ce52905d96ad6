"""Snapshots: what is kept, what is refused, and when what was kept is credited again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indexer import frames, snapshot
from indexer.block import Holder, MediaId, Trust
from indexer.feed import Feed, Source
from indexer.frames import Message
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from indexer.snapshot import MAX_AGE_S, NotUsable
from tests.indexer import make
from tests.indexer.hybrid_engine import name_of
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


def restored(data: bytes, block_size: int = 16, **fields: Any) -> tuple[PrefixIndex, Feed]:
    index = PrefixIndex(block_size)
    feed = opened(index, **fields)
    found = snapshot.decode(data, block_size, 100.0)
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


def test_blocks_smaller_than_the_index_s_come_along() -> None:
    index = PrefixIndex(64)
    opened(index).receive(
        make.frames(
            0,
            make.stored(range(1, 7), make.prompt(6)),
            make.stored([2], make.prompt(1, 16), 1),  # a second copy
            make.removed([5]),  # of which the sixth is a follower
        ),
        1.0,
    )
    again, feed = restored(kept(index), 64)
    feed.proven()
    prompt = pack(make.prompt(8))
    for each, stream in ((index, index.feeds()[0]), (again, feed)):
        seen = []
        for seq, event in enumerate(
            (
                make.removed([2]),  # one copy is left
                make.stored([5], make.prompt(1, 64), 4),
                make.stored([7, 8], make.prompt(2, 96), 6),
                make.removed([1]),
            ),
            1,
        ):
            stream.receive(make.frames(seq, event), 1.0)
            match = each.match([BASE], prompt, 0.0).matches.get(E1)
            seen.append(match.blocks if match else 0)
        assert (seen, stream.trust) == ([1, 1, 2, 0], Trust.EXACT)
        assert each.stats().sizes["pieces"] == 8


def test_names_that_stand_for_nothing_yet_come_along() -> None:
    full: dict[str, Any] = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    mamba: dict[str, Any] = {"group_idx": 1, "kv_cache_spec_kind": "mamba"}
    index = PrefixIndex(16)
    parts = make.frames(0, make.stored(NAMES[2:3], [], **mamba), make.stored(NAMES[:1], **full))
    opened(index).receive(parts, 1.0)
    assert index.stats().sizes["claims"] == 1
    again, feed = restored(kept(index))
    feed.proven()
    rest = make.stored(NAMES[1:], make.prompt(3, 16), NAMES[0], **full)
    for each, stream in ((index, index.feeds()[0]), (again, feed)):
        stream.receive(make.frames(1, rest), 1.0)
        assert (score(each), stream.trust) == (3, Trust.EXACT)


def test_pieces_and_claims_that_have_no_room_make_it_partial() -> None:
    index = PrefixIndex(64)
    opened(index).receive(make.frames(0, make.stored(range(1, 7), make.prompt(6))), 1.0)
    data = kept(index, process_start=None)
    for index_bytes, trust in ((10_000, Trust.EXACT), (1_000, Trust.PARTIAL)):
        again = PrefixIndex(64, index_bytes=index_bytes)
        feed = opened(again)
        found = snapshot.decode(data, 64, 100.0)
        snapshot.restore(again, found, snapshot.matching(found, again.feeds()))
        feed.receive(make.frames(1), 1.0)
        assert feed.trust is trust
        assert again.stats().bytes <= index_bytes


def test_a_stream_whose_engine_has_nothing_goes_on_where_it_was() -> None:
    index = PrefixIndex(16)
    opened(index).receive(make.frames(0, make.stored(), make.CLEARED), 1.0)
    again, feed = restored(kept(index))
    feed.proven()
    feed.receive(make.frames(1, make.stored()), 1.0)
    assert (score(again), feed.trust) == (4, Trust.EXACT)


def test_an_engine_that_told_of_shared_storage_is_asked_for_all_of_it_again() -> None:
    index = PrefixIndex(16)
    remote = make.stored(NAMES[:2], medium="STORAGE", locality="REMOTE")
    opened(index).receive(make.frames(0, remote, make.stored(NAMES[:1])), 1.0)
    again, feed = restored(kept(index), replay="tcp://r")
    feed.proven()
    assert (score(again), feed.trust) == (1, Trust.PARTIAL)
    feed.lost()
    feed.connected()
    assert feed.catch_up.wants == 0


def test_what_is_not_proven_yet_is_kept_on_for_as_long_as_any_snapshot() -> None:
    first, _ = restored(kept(warm(), process_start=5.0))
    again = kept(first, process_start=6.0, written_at=100.0 + MAX_AGE_S)
    second = PrefixIndex(16)
    feed = opened(second)
    found = snapshot.decode(again, 16, 100.0 + MAX_AGE_S)
    snapshot.restore(second, found, snapshot.matching(found, second.feeds()))
    assert (feed.trust, feed.restored and feed.restored.process_start) == (Trust.STALE, 5.0)
    too_late = kept(second, written_at=101.0 + MAX_AGE_S)
    found = snapshot.decode(too_late, 16, 101.0 + MAX_AGE_S)
    assert not snapshot.matching(found, [opened(PrefixIndex(16))])
    feed.proven()
    feed.receive(make.frames(2), 1.0)
    assert (score(second), feed.trust) == (3, Trust.EXACT)


def test_what_was_incomplete_stays_so() -> None:
    index = PrefixIndex(16)
    opened(index).receive(make.frames(7, make.stored()), 1.0)
    again, feed = restored(kept(index))
    feed.receive(make.frames(8), 1.0)
    feed.proven()
    assert (score(again), feed.trust) == (4, Trust.PARTIAL)


def test_streams_that_cannot_be_gone_on_with_are_left_out() -> None:
    index = PrefixIndex(16)
    lost, shared, unclear, late = (Holder(f"e{n}") for n in range(4))
    opened(index, lost).receive(make.frames(0, make.stored()), 1.0)
    index.feeds()[0].lost()
    opened(index, shared, shared=True).receive(make.frames(0, make.stored()), 1.0)
    odd = make.stored(group_idx=0, kv_cache_spec_kind="chunked_local_attention")
    opened(index, unclear).receive(make.frames(0, odd), 1.0)
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
    assert not found.streams[0].was.complete  # what is replayed teaches what the pool's names mean
    snapshot.restore(index, found, snapshot.matching(found, index.feeds()))
    assert index.blocks.blocks(E1) == {"gpu": 2}


class _Engine:
    """One that stores, moves and forgets blocks of any size, and says so."""

    def __init__(self, rng: random.Random, block_size: int) -> None:
        self._rng = rng
        self._size = block_size
        self._held: list[tuple[int, str]] = []
        self._sent = 0

    def prompt(self, path: Sequence[int]) -> list[int]:
        return [token for token in path for _ in range(self._size)]

    def act(self) -> list[bytes]:
        events = [self._event(self._rng.random()) for _ in range(self._rng.randint(1, 3))]
        self._sent += 1
        return make.frames(self._sent - 1, *events)

    def _event(self, dice: float) -> object:
        if self._held and dice < 0.4:
            name, tier = self._held.pop(self._rng.randrange(len(self._held)))
            return make.removed([name], medium=tier)
        if self._held and dice < 0.5:
            name, _ = self._rng.choice(self._held)
            self._held.append((name, "CPU"))
            return make.stored([name], [], block_size=0, medium="CPU")
        path = [self._rng.choice((1, 2)) for _ in range(4)]
        media = [[b"digest"]] * 4 if dice < 0.7 else [None] * 4
        names = [name_of([*path[:end], len(media[0] or ())]) for end in range(1, 5)]
        start, tier = self._rng.choice((0, 0, 1, 2, 3)), self._rng.choice(("GPU", "CPU"))
        self._held += [(name, tier) for name in names[start:]]
        return make.stored(
            names[start:],
            self.prompt(path[start:]),
            names[start - 1] if start else None,
            self._size,
            medium=tier,
            extra_keys=media[start:],
        )


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from([8, 16, 32]), st.integers(1, 8), st.integers(1, 8))
def test_what_is_restored_goes_on_like_what_was_kept(
    seed: int, block_size: int, before: int, after: int
) -> None:
    engine = _Engine(random.Random(seed), block_size)
    index = PrefixIndex(16)
    feed = opened(index)
    for _ in range(before):
        feed.receive(engine.act(), 1.0)
    assume(not index.state(E1).parked_blocks)
    again, other = restored(kept(index))
    other.proven()
    media: dict[int, list[MediaId]] = {number: [b"digest"] for number in range(8)}
    for number in range(after + 1):
        if number:
            parts = engine.act()
            feed.receive(parts, 1.0)
            other.receive(parts, 1.0)
        for path in itertools.product((1, 2), repeat=4):
            prompt = pack(engine.prompt(path))
            for lies_on in (None, media):
                told = [i.match([BASE], prompt, 0.0, lies_on).matches for i in (index, again)]
                assert told[0] == told[1]
        assert index.state(E1).blocks == again.state(E1).blocks
