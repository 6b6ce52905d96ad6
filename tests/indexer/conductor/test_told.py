from __future__ import annotations

from typing import Any

import pytest

from indexer.conductor.told import events_of, rank_of
from indexer.conductor.wire import Malformed
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored, Change, PoolTold
from indexer.hashing import pack


def one(**data: Any) -> Any:
    (event,) = events_of({"event_id": 1, "data": data}, 4)
    return event


def test_blocks_tell_their_content_by_hashes() -> None:
    block = {"block_hash": "0x0b", "tokens_hash": 77}
    event = one(type="stored", blocks=[block], parent_hash=-1, medium="host")
    assert event == BlockStored([11], (1 << 64) - 1, b"", 4, "cpu", contents=[77], settled=True)


def test_tokens_tell_it_themselves_in_whole_blocks() -> None:
    event = one(type="BlockStored", token_ids=[*range(9)], block_hashes=[1, 2, 3])
    assert event == BlockStored([1, 2], None, pack(range(8)), 4, "gpu", settled=True)
    event = one(type="stored", token_ids=[*range(4)], block_hashes=[1, 2], block_size=2)
    assert (event.names, event.block_size) == ([1, 2], 2)


def test_a_parent_of_0_is_none() -> None:
    assert (
        one(type="stored", token_ids=[1] * 4, block_hashes=[1], parent_block_hash=0).parent is None
    )


def test_names_alone_are_what_pools_tell() -> None:
    event = one(event_type="stored", seq_hashes=[1], medium="ssd", backend_id="10.0.0.1")
    assert event == PoolTold(Change.STORED, [1], "disk", "10.0.0.1")
    assert one(event_type="stored", seq_hashes=[1]).tier == "gpu"


def test_removals_and_clears_are_of_a_medium_or_of_the_engine_s_own() -> None:
    assert one(type="removed", block_hashes=[1, "1"]) == BlockRemoved([1], "gpu", settled=True)
    removed = one(event_type="removed", seq_hashes=[1], medium="dfs")
    assert removed == BlockRemoved([1], "disk", settled=True)
    assert one(type="cleared") == AllBlocksCleared()
    assert one(type="AllBlocksCleared", medium="cpu") == AllBlocksCleared("cpu")


def test_fields_may_stand_beside_the_event_s_number() -> None:
    (event,) = events_of({"event_id": 1, "type": "removed", "block_hashes": [1]}, 4)
    assert event == BlockRemoved([1], "gpu", settled=True)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "moved"},
        {"type": "stored", "medium": 5},
        {"type": "stored", "blocks": [{"block_hash": 1}]},
        {"type": "stored", "blocks": [7]},
        {"type": "stored", "blocks": [{"block_hash": "x", "tokens_hash": 1}]},
        {"type": "stored", "token_ids": [1], "block_hashes": [1]},
        {"type": "stored", "token_ids": [-1] * 4, "block_hashes": [1]},
        {"type": "stored", "token_ids": [1] * 4, "block_hashes": [1], "block_size": 0},
        {"type": "stored", "seq_hashes": ["x"]},
        {"type": "removed", "block_hashes": 7},
    ],
)
def test_what_makes_no_sense_is_malformed(data: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        events_of({"data": data}, 4)
    with pytest.raises(Malformed):
        events_of({"data": 7}, 4)


def test_ranks_are_numbers() -> None:
    assert (rank_of({}), rank_of({"dp_rank": None}), rank_of({"dp_rank": 3})) == (0, 0, 3)
    for rank in (-1, 1 << 16, "0", True):
        with pytest.raises(Malformed):
            rank_of({"dp_rank": rank})
