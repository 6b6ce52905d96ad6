"""TensorRT-LLM's events: what each says about blocks, and what junk costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Identity, Match
from indexer.engines.trtllm import Decoder, Entry
from indexer.events import Batch, BlockRemoved, BlockStored, Event, Reason
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import BASE, E1


def _block(name: int, tokens: list[int], level: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "type": "stored_block",
        "block_hash": name,
        "tokens": [{"type": "unique_token", "token_id": t, "token_extra_id": 0} for t in tokens],
        "cache_level": level,
        "priority": 35,
        **fields,
    }


def _stored(*blocks: dict[str, Any], parent: int | None = None) -> dict[str, Any]:
    return {"type": "stored", "parent_hash": parent, "blocks": list(blocks)}


def _moved(name: int, old: int, new: int) -> dict[str, Any]:
    level = {"type": "event_diff", "new_value": new, "old_value": old}
    return {"type": "updated", "block_hash": name, "cache_level": level, "priority": None}


CREATED = {"type": "created", "num_blocks_per_cache_level": [100, 50]}
TWO = _stored(_block(1, make.prompt(1)), _block(2, make.prompt(1, 16)))


def _answer(*data: object, first: int = 0, **fields: Any) -> bytes:
    events = [{"event_id": first + n, "data": d, **fields} for n, d in enumerate(data)]
    return json.dumps(events).encode()


def _events(decoder: Decoder, *data: object, **fields: Any) -> list[Event]:
    entries = decoder.decode(_answer(*data, **fields))
    assert all(not entry.batch.rejected for entry in entries)
    return [event for entry in entries for event in entry.batch.events]


def test_stored_blocks_follow_each_other() -> None:
    first, second = _events(Decoder(), CREATED, TWO)
    assert first == make.store_event([1], make.prompt(1))
    assert second == make.store_event([2], make.prompt(1, 16), parent=1)
    decoder = Decoder(16)
    (third,) = _events(decoder, _stored(_block(-3, make.prompt(1, 32)), parent=2), window_size=None)
    assert third == make.store_event([2**64 - 3], make.prompt(1, 32), parent=2)


def test_every_event_keeps_its_number_and_rank() -> None:
    entries = Decoder().decode(_answer(CREATED, TWO, first=7, attention_dp_rank=3))
    assert [(entry.seq, entry.batch.rank) for entry in entries] == [(7, 3), (8, 3)]


def test_a_removal_takes_a_block_from_wherever_it_lies() -> None:
    removed = {"type": "removed", "block_hashes": [1, 2]}
    assert _events(Decoder(), removed) == [
        BlockRemoved([1, 2], "gpu"),
        BlockRemoved([1, 2], "cpu"),
    ]


def test_a_block_that_moves_is_there_before_it_leaves() -> None:
    assert _events(Decoder(), _moved(1, 0, 1)) == [
        BlockStored([1], None, b"", 0, "cpu"),
        BlockRemoved([1], "gpu"),
    ]
    assert _events(Decoder(), {"type": "updated", "block_hash": 1, "cache_level": None}) == []


def test_a_block_that_is_not_known_to_be_full_is_left_out() -> None:
    decoder = Decoder()
    lone = _stored(_block(1, make.prompt(1)))
    (entry,) = decoder.decode(_answer(lone))
    assert (entry.batch.events, entry.batch.rejected) == ([], [Reason.PARTIAL_BLOCK])
    _events(decoder, TWO)
    (entry,) = decoder.decode(_answer(lone))
    assert len(entry.batch.events) == 1
    tail = _stored(_block(1, make.prompt(1)), _block(2, [1, 2, 3]))
    (entry,) = decoder.decode(_answer(tail))
    assert [event.names for event in entry.batch.events if isinstance(event, BlockStored)] == [[1]]
    assert entry.batch.rejected == [Reason.PARTIAL_BLOCK]


def test_media_and_extra_ids_keep_blocks_apart() -> None:
    block = _block(1, make.prompt(1), mm_keys=[{"type": "mm_key", "hash": "ab", "start_offset": 0}])
    (event,) = _events(Decoder(16), _stored(block))
    assert isinstance(event, BlockStored)
    assert event.media == {0: ["ab"]}
    block = _block(1, make.prompt(1))
    block["tokens"][3]["token_extra_id"] = 9
    (event,) = _events(Decoder(16), _stored(block))
    assert isinstance(event, BlockStored)
    assert event.media is not None


def test_pools_with_several_windows_are_groups() -> None:
    decoder = Decoder(16)
    small = decoder.decode(
        json.dumps(
            [
                {"event_id": 0, "data": CREATED, "window_size": 32},
                {"event_id": 1, "data": CREATED, "window_size": 4096},
                {"event_id": 2, "data": TWO, "window_size": 4096},
                {"event_id": 3, "data": TWO, "window_size": 32},
            ]
        ).encode()
    )
    told = [event for entry in small for event in entry.batch.events]
    groups = [
        (event.group, event.group_kind, event.window)
        for event in told
        if isinstance(event, BlockStored)
    ]
    assert groups == [(1, "full_attention", None)] * 2 + [(0, "sliding_window", 32)] * 2


def test_an_index_follows_the_engine() -> None:
    index = BlockIndex(16)
    ledger = Ledger(E1, index, Speculative(index.bits))
    decoder = Decoder()

    def match(*data: object, identity: Identity = BASE) -> Match | None:
        for event in _events(decoder, *data, window_size=4096):
            ledger.apply(event, "tiny")
        return index.match(block_hashes(pack(make.prompt()), 16, root(identity))).get(E1)

    assert match(CREATED, TWO) == Match(2, {"gpu": 2}, 2)
    assert match(_moved(2, 0, 1)) == Match(2, {"gpu": 1, "cpu": 1}, 2)
    assert match(_moved(2, 1, 0), _moved(1, 0, 1)) == Match(2, {"gpu": 1, "cpu": 1}, 2)
    assert match({"type": "removed", "block_hashes": [2]}) == Match(1, {"cpu": 1}, 1)
    assert match({"type": "removed", "block_hashes": [1]}) is None
    assert set(make.swept(index).sizes().values()) == {0}


@pytest.mark.parametrize(
    "event",
    [
        7,
        {"event_id": 4},
        {"event_id": 4, "data": {"type": "new"}},
        {"event_id": 4, "data": {"type": "removed"}},
        {"event_id": 4, "data": {"type": "removed", "block_hashes": [2**64]}},
        {"event_id": 4, "data": {"type": "removed", "block_hashes": [1.5]}},
        {"event_id": 4, "data": _moved(1, 0, 2)},
        {"event_id": 4, "data": TWO, "attention_dp_rank": -1},
        {"event_id": 4, "data": _stored(_block(1, [-1] * 16), _block(2, [1] * 16))},
        {"event_id": 4, "data": _stored(_block(1, [2**32] * 16), _block(2, [1] * 16))},
        {"event_id": 4, "data": _stored(_block(1, [1] * 16, 5), _block(2, [1] * 16))},
    ],
)
def test_a_bad_event_costs_itself_only(event: object) -> None:
    good = {"event_id": 5, "data": {"type": "removed", "block_hashes": [1]}}
    bad, entry = Decoder().decode(json.dumps([event, good]).encode())
    assert bad.seq == (4 if isinstance(event, dict) else None)
    assert (list(bad.batch.events), list(bad.batch.rejected)) == ([], [Reason.BAD_EVENT])
    assert entry.seq == 5
    assert len(entry.batch.events) == 2


@pytest.mark.parametrize("payload", [b"", b"{}", b"[1", b"\xff", b"[" * 100_000])
def test_an_answer_that_is_no_list_is_rejected(payload: bytes) -> None:
    expected = Entry(None, Batch((), rejected=(Reason.BAD_BATCH,)))
    assert Decoder().decode(payload) == [expected]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)
HOSTILE = st.fixed_dictionaries(
    {"type": st.sampled_from(["created", "stored", "removed", "updated"])},
    optional={
        "blocks": st.lists(
            st.fixed_dictionaries(
                {"block_hash": JSON, "tokens": st.lists(JSON, max_size=3)},
                optional={"cache_level": JSON, "mm_keys": JSON},
            )
            | JSON,
            max_size=3,
        ),
        "parent_hash": JSON,
        "block_hashes": st.lists(JSON, max_size=3),
        "block_hash": JSON,
        "cache_level": JSON,
    },
)


@settings(deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"event_id": JSON, "data": HOSTILE | JSON}) | JSON), st.data()
)
def test_no_answer_makes_it_raise_and_each_event_gives_an_entry(
    events: list[object], data: st.DataObject
) -> None:
    payload = json.dumps(events).encode()
    assert len(Decoder().decode(payload)) == len(events)
    cut = data.draw(st.integers(0, len(payload)))
    Decoder().decode(payload[:cut] + data.draw(st.binary(max_size=3)) + payload[cut:])
