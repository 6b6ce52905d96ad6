"""The decoder: every spelling of an event is the same event, and junk costs only itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from indexer.engines.vllm import decode
from indexer.events import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, Reason
from indexer.hashing import pack
from tests.indexer import make

NEEDED = {
    "type": "BlockStored",
    "block_hashes": list(make.NAMES),
    "token_ids": make.prompt(),
    "block_size": 16,
}
encode = msgspec.msgpack.encode
STORED = make.store_event(group=0, group_kind="full_attention")
MAP = make.stored(group_idx=0, kv_cache_spec_kind="full_attention", extra_keys=[None] * 4)


def _one(event: object) -> Event:
    batch = decode(make.payload(event))
    assert batch.rejected == []
    (decoded,) = batch.events
    return decoded


def _stored(event: object) -> BlockStored:
    decoded = _one(event)
    assert isinstance(decoded, BlockStored)
    return decoded


def _reason(event: object) -> Reason:
    batch = decode(make.payload(event))
    assert batch.events == []
    (reason,) = batch.rejected
    return reason


def _array(tag: str = "BlockStored", *fields: Any) -> list[Any]:
    return [tag, list(make.NAMES), None, make.prompt(), 16, *fields]


@pytest.mark.parametrize(
    "event",
    [
        make.stored(),
        {"new_field": [1], **make.stored(), "session_id": "s", "locality": "LOCAL"},
        dict(reversed(make.stored().items())),
        NEEDED,
        make.stored(parent=0),
        _array(),
        _array("BlockStored", None),
        _array("BlockStored", None, "GPU"),
        _array("BlockStored", None, "GPU", None, None, None, None, None),
        _array("BlockStored", None, "GPU", None, None, None, None, None, "unknown", {"more": 1}),
        encode(make.stored()),
        encode(_array("BlockStored", None, "GPU")),
        make.stored([make.NAMES[0] - 2**64, *make.NAMES[1:]]),
        make.stored([name.to_bytes(8, "big") for name in make.NAMES]),
        make.stored([bytes(24) + name.to_bytes(8, "big") for name in make.NAMES]),
        make.stored([make.NAMES[0], *(bytes([name]) for name in make.NAMES[1:])]),
    ],
    ids=[
        "map", "map with unknown keys", "map with its type last", "map with the needed keys only",
        "zero for no parent", "0.9 cut short", "0.9", "0.10.2", "0.22", "two unknown fields",
        "map in bytes", "array in bytes", "signed hashes", "8-byte digests", "32-byte digests",
        "short digests",
    ],
)  # fmt: skip
def test_every_spelling_of_a_store_is_the_same_store(event: object) -> None:
    assert _one(event) == make.store_event()


def test_group_and_kind_are_read_in_both_forms() -> None:
    array = _array("BlockStored", None, "GPU", None, [None] * 4, 0, "full_attention", None)
    assert _one(MAP) == _one(array) == STORED


@pytest.mark.parametrize(
    ("parent", "name"),
    [(5, 5), (-1, 2**64 - 1), (2**64 - 1, 2**64 - 1), (b"\x01\x02\x03", 66051),
     (bytes(range(32)), 0x18191A1B1C1D1E1F), (None, None), (0, None)],
)  # fmt: skip
def test_parents_are_named_like_blocks(parent: Any, name: int | None) -> None:
    assert _stored(make.stored(parent=parent)).parent == name
    array = _array()
    array[2] = parent
    assert _stored(array).parent == name


@pytest.mark.parametrize(
    "event",
    [
        make.removed(),
        {"type": "BlockRemoved", "block_hashes": list(make.NAMES)},
        ["BlockRemoved", list(make.NAMES)],
        ["BlockRemoved", list(make.NAMES), "GPU", None, "unknown"],
        make.removed([make.NAMES[0] - 2**64, *make.NAMES[1:]]),
    ],
    ids=["map", "short map", "0.9", "unknown field", "signed hashes"],
)
def test_every_spelling_of_a_removal_is_the_same_removal(event: object) -> None:
    assert _one(event) == BlockRemoved(list(make.NAMES))


@pytest.mark.parametrize(
    ("event", "tier"),
    [
        (make.CLEARED, None),
        (["AllBlocksCleared"], None),
        ({"type": "AllBlocksCleared", "medium": "GPU"}, "gpu"),
        (["AllBlocksCleared", "CPU_PINNED"], "cpu"),
    ],
    ids=["map", "array", "map with tier", "array with tier"],
)
def test_a_clear_may_name_a_tier(event: object, tier: str | None) -> None:
    assert _one(event) == AllBlocksCleared(tier)


@pytest.mark.parametrize(
    ("medium", "tier"),
    [(None, "gpu"), ("", "gpu"), ("GPU", "gpu"), ("CPU", "cpu"), ("CPU_PINNED", "cpu"),
     ("cpu_pinned", "cpu"), ("Disk", "disk"), ("SHARED_STORAGE", "shared_storage")],
)  # fmt: skip
def test_media_become_tiers(medium: str | None, tier: str) -> None:
    assert _stored(make.stored(medium=medium)).tier == tier
    assert _one(make.removed(medium=medium)) == BlockRemoved(list(make.NAMES), tier)


@pytest.mark.parametrize(
    ("batch", "rank", "ts"),
    [
        ([7.5, [MAP], 3], 3, 7.5),
        ([7, [MAP], 3], 3, 7.0),
        ([7.5, [MAP]], None, 7.5),
        ([7.5, [MAP], None], None, 7.5),
        ([7.5, [MAP], 3, "unknown", {}], 3, 7.5),
        ({"ts": 7.5, "events": [MAP], "data_parallel_rank": 3}, 3, 7.5),
        ({"ts": 7.5, "events": [MAP], "attn_dp_rank": 3}, 3, 7.5),
        ({"events": [MAP]}, None, None),
        ([None, [MAP], "three"], None, None),
        ([7.5, [MAP], -1], None, 7.5),
        ([7.5, [MAP], True], None, 7.5),
    ],
)
def test_every_form_of_a_batch_is_read(batch: object, rank: int | None, ts: float | None) -> None:
    decoded = decode(encode(batch))
    assert decoded.events == [STORED]
    assert (decoded.ts, decoded.rejected) == (ts, [])
    assert decoded.rank == rank


def test_events_that_tell_only_a_location_are_kept() -> None:
    event = _stored(make.stored([5], tokens=[], block_size=0, medium="CPU"))
    assert (event.tokens, event.tier, event.names) == (b"", "cpu", [5])


@pytest.mark.parametrize(
    ("fields", "lora", "salt", "media", "unnamed"),
    [
        ({"extra_keys": [["s"], None, None, None]}, None, "s", None, None),
        ({"extra_keys": [["A"]] * 4, "lora_name": "A", "lora_id": 1}, "A", None, None, None),
        ({"extra_keys": [["A", "s"], ["A"], ["A"], ["A"]], "lora_name": "A"}, "A", "s", None, None),
        ({"extra_keys": [["A", "A"], ["A"], ["A"], ["A"]], "lora_name": "A"}, "A", "A", None, None),
        ({"extra_keys": [None, ["x"], ["x"], None]}, None, None, {1: ["x"], 2: ["x"]}, None),
        ({"extra_keys": [None, [["x", -3]], None, None]}, None, None, {1: ["x"]}, None),
        ({"extra_keys": [["x", "s"], None, None, None]}, None, "s", {0: ["x"]}, None),
        ({"extra_keys": [[["x", 2], "s"], None, None, None]}, None, "s", {0: ["x"]}, None),
        ({"extra_keys": [[b"d"], None, None, None]}, None, None, {0: [b"d"]}, None),
        ({"extra_keys": [["A", ["x", 0], "s", b"d"], None, None, None], "lora_name": "A"},
         "A", "s", {0: ["x", b"d"]}, None),
        ({"extra_keys": None, "cache_salt": "s"}, None, "s", None, None),
        ({"lora_id": 3}, None, None, None, 3),
        ({"lora_id": 3, "lora_name": "A"}, "A", None, None, None),
        ({"lora_name": ""}, None, None, None, None),
    ],
    ids=[
        "salt", "adapter", "adapter and salt", "salt spelled like the adapter", "bare media",
        "media with offset", "bare media and salt", "media and salt on the first block",
        "embeddings", "everything", "salt in a field of its own", "unnamed adapter",
        "named adapter with a number", "empty adapter name",
    ],
)  # fmt: skip
def test_extra_keys_are_told_apart(
    fields: dict[str, Any],
    lora: str | None,
    salt: str | None,
    media: object,
    unnamed: int | None,
) -> None:
    event = _stored(make.stored(**fields))
    assert (event.lora, event.salt, event.media) == (lora, salt, media)
    assert event.unnamed_adapter == unnamed


def test_bare_text_is_a_salt_only_on_the_first_block_of_a_sequence() -> None:
    event = _stored(make.stored(parent=9, extra_keys=[["x"], None, None, None]))
    assert (event.salt, event.media) == (None, {0: ["x"]})


def test_an_extra_key_that_is_not_understood_still_keeps_blocks_apart() -> None:
    event = _stored(make.stored(extra_keys=[None, [{"kind": 1}], [["a", "b"]], [7]]))
    assert event.media is not None
    assert set(event.media) == {1, 2, 3}


def test_metadata_in_the_place_of_the_adapters_name_carries_the_salt() -> None:
    event = _stored(_array("BlockStored", None, "GPU", {"cache_salt": "s"}))
    assert (event.lora, event.salt) == (None, "s")


def test_metadata_of_a_map_carries_the_salt() -> None:
    event = _stored(make.stored(metadata={"cache_salt": "s", "component_types": ["full"]}))
    assert (event.lora, event.salt) == (None, "s")
    signed = make.stored([-5], make.prompt(1), metadata={"cache_salt": "s"})
    assert _stored(signed).salt == "s"
    assert _stored(make.stored(metadata={}, cache_salt="t")).salt == "t"
    assert _reason(make.stored(metadata={"cache_salt": 5})) is Reason.BAD_EVENT


@pytest.mark.parametrize(
    "fields",
    [{"medium": "CPU_PINNED"}, {"medium": "DISK"}, {"medium": "EXTERNAL"}],
    ids=["cpu", "disk", "external"],
)
def test_sglang_tiers_are_told_in_arrays_and_maps(fields: dict[str, Any]) -> None:
    tier = {"CPU_PINNED": "cpu"}.get(fields["medium"], fields["medium"].lower())
    page = ["BlockStored", [-7], -6, make.prompt(1), 16, None, fields["medium"], None, None]
    expected = make.store_event([2**64 - 7], make.prompt(1), 2**64 - 6, tier=tier)
    assert _stored(page) == expected
    assert _stored(make.stored([-7], make.prompt(1), parent=-6, **fields)) == expected
    assert _one(["BlockRemoved", [-7, -8], fields["medium"]]) == BlockRemoved(
        [2**64 - 7, 2**64 - 8], tier
    )


def test_pairs_of_tokens_are_refused_by_name_and_cost_only_their_event() -> None:
    pairs = [[n, n + 1] for n in range(64)]
    for event in (
        make.stored() | {"token_ids": pairs},
        ["BlockStored", list(make.NAMES), None, pairs, 16, None, "GPU"],
    ):
        batch = decode(make.payload(event, make.removed()))
        assert batch.rejected == [Reason.BIGRAM_TOKENS]
        assert batch.events == [BlockRemoved(list(make.NAMES))]


def test_a_chunk_of_an_offload_layer_is_one_large_block() -> None:
    chunk = make.stored([9], list(range(256)), block_size=256, medium="cpu", parent=None)
    expected = make.store_event([9], list(range(256)), block_size=256, tier="cpu")
    assert _stored(chunk) == expected


@pytest.mark.parametrize("names", [[], [7], [7, 8, 9]])
def test_a_group_that_keeps_some_blocks_lists_names_without_their_tokens(names: list[int]) -> None:
    fields = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window"}
    event = _stored(
        make.stored(names, make.prompt(4), kv_cache_spec_sliding_window=32, **fields)  # type: ignore[arg-type]
    )
    assert (event.names, event.tokens, event.block_size) == (names, b"", 16)
    assert (event.group, event.group_kind, event.window) == (1, "sliding_window", 32)
    array = ["BlockStored", names, None, make.prompt(4), 16, None, "GPU", None, None, 1]
    assert _stored([*array, "sliding_window", 32]) == event


@pytest.mark.parametrize(
    "fields",
    [
        {"group_idx": 0, "kv_cache_spec_kind": "full_attention"},
        {"kv_cache_spec_kind": "sliding_window"},
        {"group_idx": 1, "kv_cache_spec_kind": "mamba", "block_size": 0},
        {"group_idx": 1, "kv_cache_spec_kind": "mamba", "block_size": 64},
    ],
    ids=["full attention", "no group", "no size", "more names than tokens"],
)
def test_counts_must_agree_where_no_group_explains_the_difference(fields: dict[str, Any]) -> None:
    assert _reason(make.stored([7, 8], make.prompt(4), **fields)) is Reason.COUNT_MISMATCH


@pytest.mark.parametrize(
    ("locality", "remote"), [("REMOTE", True), ("LOCAL", False), (None, False)]
)
def test_remote_blocks_are_told_apart(locality: str | None, remote: bool) -> None:
    assert _stored(make.stored(locality=locality)).remote is remote
    expected = BlockRemoved(list(make.NAMES), remote=remote)
    assert _one(make.removed(locality=locality)) == expected
    signed = make.removed([-1], locality=locality)
    assert _one(signed) == BlockRemoved([2**64 - 1], remote=remote)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "BlockUpdated"}, Reason.UNKNOWN_EVENT),
        (["BlockUpdated", 1], Reason.UNKNOWN_EVENT),
        ({"block_hashes": [1]}, Reason.UNKNOWN_EVENT),
        ([7], Reason.UNKNOWN_EVENT),
        ([], Reason.BAD_EVENT),
        (7, Reason.BAD_EVENT),
        (b"\xc1", Reason.BAD_EVENT),
        (["BlockStored", [1]], Reason.BAD_EVENT),
        (make.stored() | {"token_ids": [1.5] * 64}, Reason.BAD_EVENT),
        (make.stored(tokens=[-1] * 64), Reason.BAD_EVENT),
        (make.stored(tokens=[2**32] * 64), Reason.BAD_EVENT),
        (make.stored(tokens=[True] * 64), Reason.BAD_EVENT),
        (make.stored(names=[b""] * 4), Reason.BAD_EVENT),
        (make.stored(names=["1"] * 4), Reason.BAD_EVENT),  # type: ignore[list-item]
        (make.stored(parent=1.5), Reason.BAD_EVENT),  # type: ignore[arg-type]
        (make.stored(medium=5), Reason.BAD_EVENT),
        (make.stored(lora_name=5), Reason.BAD_EVENT),
        (make.stored(group_idx=-1), Reason.BAD_EVENT),
        (make.stored(kv_cache_spec_kind=1), Reason.BAD_EVENT),
        (make.stored(extra_keys=["x", None, None, None]), Reason.BAD_EVENT),
        (make.stored(block_size=0), Reason.COUNT_MISMATCH),
        (make.stored(block_size=-16), Reason.BAD_EVENT),
        (make.stored(tokens=make.prompt()[:-1]), Reason.COUNT_MISMATCH),
        (make.stored(names=[], tokens=make.prompt(1)), Reason.COUNT_MISMATCH),
        (make.stored(extra_keys=[["s"]]), Reason.COUNT_MISMATCH),
        (make.removed(names=[None]), Reason.BAD_EVENT),  # type: ignore[list-item]
        ({"type": "BlockRemoved"}, Reason.BAD_EVENT),
        ({"type": "AllBlocksCleared", "medium": 1}, Reason.BAD_EVENT),
    ],
)
def test_a_bad_event_is_left_out_with_its_reason(event: object, reason: Reason) -> None:
    assert _reason(event) is reason
    batch = decode(make.payload(make.CLEARED, event, make.removed()))
    assert batch.events == [AllBlocksCleared(), BlockRemoved(list(make.NAMES))]
    assert batch.rejected == [reason]


def _listed(events: Sequence[object]) -> bytes:
    return encode([1.5, events, 3])


def _mapped(events: Sequence[object]) -> bytes:
    return encode({"ts": 1.5, "events": events, "data_parallel_rank": 3})


@pytest.mark.parametrize("batch", [_listed, _mapped])
@pytest.mark.parametrize(
    "spoilt",
    [
        encode(make.stored(lora_name="text")).replace(b"text", b"\xff\xfe\xfd\xfc"),
        encode(["BlockStored", [1], None, [1], 1, None, "text"]).replace(b"text", b"\xc3text"[:4]),
    ],
    ids=["map", "array"],
)
def test_what_makes_a_message_unreadable_costs_only_its_event(
    batch: Callable[[Sequence[object]], bytes], spoilt: bytes
) -> None:
    read = decode(batch([make.CLEARED, msgspec.Raw(spoilt), make.removed()]))
    assert read.events == [AllBlocksCleared(), BlockRemoved(list(make.NAMES))]
    assert (read.rejected, read.rank, read.ts) == ([Reason.BAD_EVENT], 3, 1.5)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", Reason.NOT_MSGPACK),
        (b"\xc1", Reason.NOT_MSGPACK),
        (make.payload(MAP)[:-9], Reason.NOT_MSGPACK),
        (b"\x91" * 100_000, Reason.NOT_MSGPACK),
        (encode([]), Reason.BAD_BATCH),
        (encode([1.0]), Reason.BAD_BATCH),
        (encode("batch"), Reason.BAD_BATCH),
        (encode({"ts": 1.0}), Reason.BAD_BATCH),
        (encode([1.0, {"type": "AllBlocksCleared"}]), Reason.BAD_BATCH),
    ],
)
def test_a_bad_message_is_rejected_whole(payload: bytes, reason: Reason) -> None:
    assert decode(payload) == Batch((), rejected=(reason,))


def test_tokens_are_packed_for_hashing() -> None:
    assert _stored(MAP).tokens == pack(make.prompt())
