"""Shared storage: what lies there is credited to every endpoint of its model, and to no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indexer.block import Holder, Identity, Match, Trust
from indexer.events import Reason
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.prefix_index import Lookup, PrefixIndex
from indexer.replay import Replay, Step
from indexer.storage import is_shared, shared_by
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, E3, NAMES

STORE = Holder("SHARED_STORAGE")


def _open(index: PrefixIndex, holder: Holder, model: str = "tiny") -> Feed:
    return index.open(Source(holder, "tcp://x", base_model=model))


def _tell(feed: Feed, *events: object) -> None:
    last = feed.stats.last_seq
    seq = 0 if last is None else last + 1
    feed.receive(make.frames(seq, *events, topic=b""), 1.0)


def _look(index: PrefixIndex, model: str = "tiny") -> Lookup:
    return index.match([Identity(model)], pack(make.prompt()), 0.0)


def _placeholder(names: Any = NAMES, **fields: Any) -> dict[str, Any]:
    """A block told by its name alone, as storage tiers tell it."""
    return make.stored(names, [], parent=0, block_size=0, medium="SHARED_STORAGE", **fields)


def _fleet() -> tuple[PrefixIndex, Feed, Feed, Feed]:
    """Two endpoints of one model, and one of another; the first has two blocks."""
    index = PrefixIndex(16)
    one, two, other = _open(index, E1), _open(index, E2), _open(index, E3, "other")
    _tell(one, make.stored(NAMES[:2]))
    _tell(two, make.CLEARED)
    return index, one, two, other


def test_what_storage_names_is_credited_to_every_endpoint_of_the_model() -> None:
    index, one, _, _ = _fleet()
    _tell(_open(index, STORE), _placeholder())
    _tell(one, make.stored(NAMES[2:], make.prompt(2, 32), parent=NAMES[1]))
    _tell(one, make.removed(NAMES[1:]))
    lookup = _look(index)
    assert lookup.matches == {
        E1: Match(4, {"gpu": 1, "shared_storage": 3}, 4),
        E2: Match(4, {"shared_storage": 4}, 4),
    }
    assert lookup.shared_blocks == 4
    assert _look(index, "other").matches == {}


def test_names_may_be_told_before_or_after_the_engine_that_gave_them() -> None:
    for storage_first in (True, False):
        index = PrefixIndex(16)
        storage = _open(index, STORE)
        one = _open(index, E1)
        told = [(storage, _placeholder()), (one, make.stored())]
        for feed, event in told if storage_first else reversed(told):
            _tell(feed, event)
        _tell(one, make.removed())
        assert _look(index).matches == {E1: Match(4, {"shared_storage": 4}, 4)}


@pytest.mark.parametrize("gone", ["removed", "cleared", "closed"])
def test_what_left_storage_is_credited_to_nobody(gone: str) -> None:
    index, one, _, _ = _fleet()
    storage = _open(index, STORE)
    _tell(storage, _placeholder(NAMES[:2]))
    assert _look(index).matches[E2].blocks == 2
    if gone == "removed":
        _tell(storage, make.removed(NAMES[:2], medium="SHARED_STORAGE"))
    elif gone == "cleared":
        _tell(storage, make.CLEARED)
    else:
        index.close(storage)
    assert _look(index).matches == {E1: Match(2, {"gpu": 2}, 2)}
    _tell(one, make.CLEARED)
    assert _look(index).matches == {}


def test_a_storage_stream_that_is_lost_is_not_credited() -> None:
    index, _, _, _ = _fleet()
    storage = _open(index, STORE)
    _tell(storage, _placeholder(NAMES[:2]))
    storage.lost()
    assert set(_look(index).matches) == {E1}
    assert _look(index).shared_blocks == 0


def test_remote_blocks_of_an_engine_are_everybodys_and_outlive_its_clear() -> None:
    index, one, two, _ = _fleet()
    _tell(one, make.stored(NAMES[:2], medium="STORAGE", locality="REMOTE"), make.CLEARED)
    assert _look(index).matches == {
        holder: Match(2, {"shared_storage": 2}, 2) for holder in (E1, E2)
    }
    _tell(two, make.removed(NAMES[1:2], medium="STORAGE", locality="REMOTE"))
    assert _look(index).matches[E1].blocks == 1
    assert index.state(shared_by("tiny")).blocks == {"shared_storage": 1}
    index.close(one)
    index.close(two)
    assert _look(index).shared_blocks == 0


def test_local_blocks_of_an_engine_are_its_own() -> None:
    index, one, _, _ = _fleet()
    _tell(one, make.stored(medium="STORAGE", locality="LOCAL"))
    assert set(_look(index).matches) == {E1}


def test_one_removal_takes_a_block_that_several_engines_stored_there() -> None:
    index, one, two, _ = _fleet()
    for feed in (one, two):
        _tell(feed, make.stored(NAMES[:2], medium="STORAGE", locality="REMOTE"))
    _tell(two, make.removed(NAMES[:2], medium="STORAGE", locality="REMOTE"))
    assert set(_look(index).matches) == {E1}


def test_a_unit_of_storage_counts_whole() -> None:
    index, _, _, _ = _fleet()
    large = make.stored([77], make.prompt(), block_size=64, medium="SHARED_STORAGE")
    _tell(_open(index, STORE), large)
    assert _look(index).matches[E2].blocks == 4
    short = index.match([BASE], pack(make.prompt(3)), 0.0)
    assert {holder: m.blocks for holder, m in short.matches.items()} == {E1: 2}


def test_a_continuation_in_storage_counts_behind_what_is_known() -> None:
    index, one, _, _ = _fleet()
    storage = _open(index, STORE)
    _tell(storage, make.stored(NAMES[:2]), make.stored(NAMES[2:3], make.prompt(1, 32), NAMES[1]))
    _tell(storage, make.stored([55], make.prompt(1, 99), parent=54))
    assert _look(index).matches[E2].blocks == 3
    _tell(one, make.stored([55], make.prompt(1, 48), parent=NAMES[2]))


def _remote(names: Sequence[int] = NAMES[:2]) -> dict[str, Any]:
    return make.stored(names, medium="STORAGE", locality="REMOTE")


def test_nobody_is_exact_while_a_removal_from_storage_may_be_missing() -> None:
    index, one, _, other = _fleet()
    _tell(other, make.CLEARED)
    _tell(one, _remote())
    assert [index.trust(holder) for holder in (E1, E2, E3)] == [Trust.EXACT] * 3
    one.receive(make.frames(9, topic=b""), 1.0)
    assert _look(index).matches[E2].blocks == 2
    partial = [Trust.PARTIAL, Trust.PARTIAL, Trust.EXACT]  # the last is of another model
    assert [index.trust(holder) for holder in (E1, E2, E3)] == partial
    one.receive(make.frames(10, make.CLEARED, topic=b""), 1.0)
    assert (one.trust, index.trust(E2)) == (Trust.EXACT, Trust.PARTIAL)
    removed = make.removed(NAMES[:2], medium="STORAGE", locality="REMOTE")
    one.receive(make.frames(11, removed, _remote(), topic=b""), 1.0)
    assert (_look(index).matches[E2].blocks, index.trust(E2)) == (2, Trust.EXACT)


@pytest.mark.parametrize("end", ["closed", "restarted", "sequence fell"])
def test_what_an_engine_told_of_storage_is_in_doubt_after_its_end(end: str) -> None:
    index, one, _, _ = _fleet()
    _tell(one, _remote())
    if end == "closed":
        index.close(one)
    elif end == "restarted":
        index.restarted(E1.address)
    else:
        one.receive(make.frames(0, topic=b"", ts=9.0), 1.0)
        assert one.trust is Trust.EXACT
    assert (_look(index).matches[E2].blocks, index.trust(E2)) == (2, Trust.PARTIAL)


def test_publishers_of_storage_that_nothing_tells_apart_make_nobody_exact() -> None:
    index, _, _, _ = _fleet()
    storage = index.open(Source(shared_by("tiny"), "tcp://x", base_model="tiny", unordered=True))
    assert index.trust(E2) is Trust.EXACT
    _tell(storage, _placeholder(NAMES[:2]))
    assert (_look(index).matches[E2].blocks, index.trust(E2)) == (2, Trust.PARTIAL)
    _tell(storage, make.removed(NAMES[:2], medium="SHARED_STORAGE"))
    assert index.trust(E2) is Trust.EXACT


def _small_fleet() -> tuple[PrefixIndex, Feed]:
    """Engines whose blocks are a fourth of the index's; the first has one whole block."""
    index = PrefixIndex(64)
    one, two = _open(index, E1), _open(index, E2)
    _tell(one, make.stored())
    _tell(two, make.CLEARED)
    return index, one


def test_a_part_of_a_block_that_storage_names_is_no_block() -> None:
    index, _ = _small_fleet()
    _tell(_open(index, STORE), _placeholder(NAMES[3:]))
    assert _look(index).matches == {E1: Match(1, {"gpu": 1}, 1)}
    late = PrefixIndex(64)
    _tell(_open(late, STORE), _placeholder(NAMES[3:]))
    _tell(_open(late, E1), make.stored())
    assert _look(late).matches == {E1: Match(1, {"gpu": 1}, 1)}


@pytest.mark.parametrize("gone", range(4))
def test_a_part_that_leaves_storage_takes_its_block(gone: int) -> None:
    index, one = _small_fleet()
    remote: dict[str, Any] = {"medium": "STORAGE", "locality": "REMOTE"}
    _tell(one, make.stored(NAMES[:2], **remote))
    _tell(one, make.stored(NAMES[2:], make.prompt(2, 32), NAMES[1], **remote))
    _tell(one, make.stored(NAMES[gone : gone + 1], [], block_size=0, **remote))  # once more
    assert _look(index).matches[E2] == Match(1, {"shared_storage": 1}, 1)
    _tell(one, make.removed(NAMES[gone : gone + 1], **remote))
    assert _look(index).matches == {E1: Match(1, {"gpu": 1}, 1)}


def test_a_further_group_in_storage_is_left_out() -> None:
    index, _, _, _ = _fleet()
    storage = _open(index, STORE)
    _tell(storage, make.stored(group_idx=1, kv_cache_spec_kind="mamba"))
    assert index.state(STORE).rejected == {Reason.UNSUPPORTED_GROUP: 1}
    assert _look(index).shared_blocks == 0


def test_engines_with_several_groups_are_not_credited_with_one_of_them() -> None:
    index, one, _, _ = _fleet()
    window: dict[str, Any] = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window"}
    _tell(
        one,
        make.stored(NAMES[:2], group_idx=0, kv_cache_spec_kind="full_attention"),
        make.stored(NAMES[:1], kv_cache_spec_sliding_window=20, **window) | {"block_size": 16},
    )
    _tell(_open(index, STORE), _placeholder(NAMES[:2]))
    assert {holder: m.blocks for holder, m in _look(index).matches.items()} == {E1: 1, E2: 2}


def test_storage_is_told_by_its_name() -> None:
    assert is_shared(Holder("OBJECT_STORE"))
    assert is_shared(shared_by("m@x"))
    assert not is_shared(E1)


def test_a_story_that_is_told_anew_leaves_no_doubt_about_storage() -> None:
    index = PrefixIndex(16)
    one = index.open(Source(E1, "tcp://x", base_model="tiny", replay="tcp://r"))
    sent = [make.frames(seq, *events) for seq, events in enumerate([[_remote()], [_remote()], []])]
    one.connected()
    one.receive(sent[1], 1.0)
    assert index.trust(E1) is Trust.PARTIAL
    replay = Replay(one)
    assert replay.request() == [b"", bytes(8)]
    for parts in sent:
        replay.receive([b"", *parts])
    replay.receive([b"", b"", b"\xff" * 8, b""])
    replay.request()
    assert replay.receive([b"", b"", b"\xff" * 8, b""]) is Step.END
    while one.hear_waiting():
        pass
    assert (_look(index).matches[E1].blocks, index.trust(E1)) == (2, Trust.EXACT)
