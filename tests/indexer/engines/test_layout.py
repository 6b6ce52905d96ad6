"""Layouts: the array forms agree with the map forms."""

from __future__ import annotations

import msgspec
import pytest

from indexer.engines import layout


@pytest.mark.parametrize("typed", [layout.Stored, layout.AnyStored], ids=["current", "any"])
def test_array_fields_are_fields_of_the_store(typed: type[msgspec.Struct]) -> None:
    named = {field.name for field in msgspec.structs.fields(typed)}
    assert set(layout.FIELDS["BlockStored"]) <= named


@pytest.mark.parametrize("typed", [layout.Removed, layout.AnyRemoved], ids=["current", "any"])
def test_array_fields_are_fields_of_the_removal(typed: type[msgspec.Struct]) -> None:
    named = {field.name for field in msgspec.structs.fields(typed)}
    assert set(layout.FIELDS["BlockRemoved"]) == named
    assert set(layout.FIELDS["AllBlocksCleared"]) == {"medium"}


def test_the_two_stores_differ_in_the_spelling_of_hashes_only() -> None:
    current = {f.name: f.type for f in msgspec.structs.fields(layout.Stored)}
    anyhow = {f.name: f.type for f in msgspec.structs.fields(layout.AnyStored)}
    differing = {name for name in current | anyhow if current.get(name) != anyhow.get(name)}
    assert differing == {"block_hashes", "parent_block_hash"}


def test_a_current_message_is_decoded_in_one_go() -> None:
    payload = msgspec.msgpack.encode(
        [
            1.5,
            [{"type": "BlockRemoved", "block_hashes": [1], "medium": "GPU", "new_field": 1}],
            3,
            4,
        ]
    )
    batch = msgspec.msgpack.decode(payload, type=layout.CurrentBatch)
    assert batch.data_parallel_rank == 3
    assert batch.events == [layout.Removed([1], "GPU")]
