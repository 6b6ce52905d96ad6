"""The layouts of KV events on the wire: vLLM 0.9 to 0.32, SGLang 0.4 to 0.5.

Both send maps with a `type` (vLLM from 0.24, SGLang from 0.5.20) or, before, arrays with the type
first; fields were only ever added at the end. Unknown map keys and array elements are ignored.
The structs hold no cycles, so they are kept out of the garbage collector's sight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

Unsigned = Annotated[int, msgspec.Meta(ge=0)]
Hash = int | bytes

FIELDS: Mapping[str, tuple[str, ...]] = {
    "BlockStored": (
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
        "group_idx",
        "kv_cache_spec_kind",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": ("medium",),
}
"""Array layout: the fields behind the type, in order."""


class Stored(msgspec.Struct, tag_field="type", tag="BlockStored", gc=False):
    """A store as vLLM 0.24 and later send it by default: a map, hashes as unsigned numbers."""

    block_hashes: list[Unsigned]
    token_ids: list[int]
    block_size: Unsigned
    parent_block_hash: Unsigned | None = None
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: Unsigned | None = None
    kv_cache_spec_kind: str | None = None
    cache_salt: str | None = None


class Removed(msgspec.Struct, tag_field="type", tag="BlockRemoved", gc=False):
    block_hashes: list[Unsigned]
    medium: str | None = None
    group_idx: Unsigned | None = None


class Cleared(msgspec.Struct, tag_field="type", tag="AllBlocksCleared", gc=False):
    medium: str | None = None


class CurrentBatch(msgspec.Struct, array_like=True, gc=False):
    """A whole message in the current layout, decoded in one go."""

    ts: float
    events: list[Stored | Removed | Cleared]
    data_parallel_rank: Unsigned | None = None


class AnyStored(msgspec.Struct, tag_field="type", tag="BlockStored", gc=False):
    """A store with hashes of any spelling, once its fields are named."""

    block_hashes: list[Hash]
    token_ids: list[int]
    block_size: Unsigned
    parent_block_hash: Hash | None = None
    lora_id: int | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: Unsigned | None = None
    kv_cache_spec_kind: str | None = None
    cache_salt: str | None = None


class AnyRemoved(msgspec.Struct, tag_field="type", tag="BlockRemoved", gc=False):
    block_hashes: list[Hash]
    medium: str | None = None
    group_idx: Unsigned | None = None


AnyEvent = AnyStored | AnyRemoved | Cleared
