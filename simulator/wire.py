"""KV events and their msgpack form: what leaves the engine, without the socket.

vLLM since 0.24 writes an event as a map, 0.10.2 to 0.13 wrote an array whose first element is the
type; the batch around the events is an array in both: `[seconds, events, data parallel rank]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

EventLayout = Literal["map", "array"]
"""`map`: vLLM 0.24 and later. `array`: vLLM 0.10.2 to 0.13, which know no LoRA name and no salt."""

HashForm = Literal["int", "bytes"]
"""`int`: the digest's last 8 bytes as an unsigned number (default of vLLM). `bytes`: all of it."""

MEDIUM = "GPU"
"""vLLM's name of the tier that attention reads from, on CPU builds too."""

END_SEQ = b"\xff" * 8
"""Stands where a sequence number does in the message that ends a replay."""


class BlockStored(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        digests: The stored blocks, in prefix order, each the parent of the next.
        parent: The block before the first of them; None at the root.
        token_ids: What the blocks cover, `block_size` tokens each.
        extra_keys: One entry per block: its adapter's name and salt, or None.
    """

    digests: tuple[bytes, ...]
    parent: bytes | None
    token_ids: tuple[int, ...]
    block_size: int
    extra_keys: tuple[tuple[str, ...] | None, ...]
    lora_id: int | None = None
    lora_name: str | None = None
    session_id: str | None = None


class BlockRemoved(msgspec.Struct, frozen=True):
    """One physical copy of a block is gone; others of the same digest may live on."""

    digest: bytes


class AllBlocksCleared(msgspec.Struct, frozen=True):
    """The prefix cache was reset."""


Event = BlockStored | BlockRemoved | AllBlocksCleared


def encode_batch(
    seconds: float, events: Sequence[Event], rank: int, layout: EventLayout, form: HashForm
) -> bytes:
    """The payload frame of one message."""
    as_written = _as_map if layout == "map" else _as_array
    return _ENCODER.encode([seconds, [as_written(event, form) for event in events], rank])


def encode_seq(seq: int) -> bytes:
    """The sequence frame: 8 bytes, big-endian."""
    return seq.to_bytes(8, "big")


def decode_seq(frame: bytes) -> int:
    """The number a replay shall start from. Raises ValueError unless the frame is 8 bytes."""
    if len(frame) != 8:
        raise ValueError(f"a sequence number takes 8 bytes, got {len(frame)}")
    return int.from_bytes(frame, "big")


_ENCODER = msgspec.msgpack.Encoder()


def _name(digest: bytes, form: HashForm) -> int | bytes:
    return int.from_bytes(digest[-8:], "big") if form == "int" else digest


def _as_map(event: Event, form: HashForm) -> dict[str, Any]:
    match event:
        case BlockStored():
            written = {
                "type": "BlockStored",
                "block_hashes": [_name(digest, form) for digest in event.digests],
                "parent_block_hash": None if event.parent is None else _name(event.parent, form),
                "token_ids": event.token_ids,
                "block_size": event.block_size,
                "lora_id": event.lora_id,
                "medium": MEDIUM,
                "lora_name": event.lora_name,
                "extra_keys": event.extra_keys,
                "group_idx": 0,
                "kv_cache_spec_kind": "full_attention",
            }
            return written | ({"session_id": event.session_id} if event.session_id else {})
        case BlockRemoved():
            names = [_name(event.digest, form)]
            return {"type": "BlockRemoved", "block_hashes": names, "medium": MEDIUM, "group_idx": 0}
        case AllBlocksCleared():
            return {"type": "AllBlocksCleared"}


def _as_array(event: Event, form: HashForm) -> list[Any]:
    match event:
        case BlockStored():
            return [
                "BlockStored",
                [_name(digest, form) for digest in event.digests],
                None if event.parent is None else _name(event.parent, form),
                event.token_ids,
                event.block_size,
                event.lora_id,
                MEDIUM,
            ]
        case BlockRemoved():
            return ["BlockRemoved", [_name(event.digest, form)], MEDIUM]
        case AllBlocksCleared():
            return ["AllBlocksCleared"]
