"""Builders for the tests of the index: only what a test is about needs saying."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from indexer.block import Holder, Identity
from indexer.events import BlockStored
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex

CAPTURES = Path(__file__).parent.parent / "captures"

E1 = Holder("127.0.0.1:9101")
E2 = Holder("127.0.0.1:9102")
E3 = Holder("127.0.0.1:9103")

BASE = Identity("tiny")
TOPIC = b"kv@127.0.0.1:9101@tiny"
BLOCK_SIZE = 16
NAMES = (17293822569102704641, 11, 12, 13)
"""What the engine of the examples calls the four blocks of `prompt()`."""


def prompt(blocks: int = 4, start: int = 0) -> list[int]:
    """Token ids of a prompt of exactly so many blocks."""
    return list(range(start, start + blocks * BLOCK_SIZE))


def chains(tokens: Sequence[int] | None = None, identity: Identity = BASE) -> list[int]:
    ids = prompt() if tokens is None else tokens
    return block_hashes(pack(ids), BLOCK_SIZE, root(identity))


def store_event(
    names: Sequence[int] = NAMES,
    tokens: Sequence[int] | None = None,
    parent: int | None = None,
    **fields: Any,
) -> BlockStored:
    ids = prompt(len(names)) if tokens is None else tokens
    return BlockStored(
        list(names), parent, pack(ids), fields.pop("block_size", BLOCK_SIZE), **fields
    )


def stored(
    names: Sequence[int | bytes] = NAMES,
    tokens: Sequence[int] | None = None,
    parent: int | bytes | None = None,
    block_size: int = BLOCK_SIZE,
    **fields: Any,
) -> dict[str, Any]:
    """A store as a current engine spells it."""
    return {
        "type": "BlockStored",
        "block_hashes": list(names),
        "parent_block_hash": parent,
        "token_ids": prompt(len(names)) if tokens is None else list(tokens),
        "block_size": block_size,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **fields,
    }


def removed(names: Sequence[int | bytes] = NAMES, **fields: Any) -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": list(names), "medium": "GPU", **fields}


CLEARED: dict[str, Any] = {"type": "AllBlocksCleared"}


def payload(*events: object, ts: float = 1.0, rank: int | None = 0) -> bytes:
    return msgspec.msgpack.encode([ts, list(events), rank])


def frames(
    seq: int, *events: object, topic: bytes = TOPIC, ts: float = 1.0, rank: int | None = 0
) -> list[bytes]:
    return [topic, seq.to_bytes(8, "big"), payload(*events, ts=ts, rank=rank)]


def captured(name: str, kind: str) -> Iterator[dict[str, Any]]:
    """The lines of a recording."""
    with (CAPTURES / f"{name}.{kind}.jsonl").open() as lines:
        for line in lines:
            yield json.loads(line)


def captured_frames(line: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(frame) for frame in line["frames"]]


def swept(index: BlockIndex) -> BlockIndex:
    """The index after all clearing up."""
    for _ in range(100_000):
        if not index.sweep(7):
            return index
    raise AssertionError("the clearing up has no end")
