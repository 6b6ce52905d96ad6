"""Events as clients post them to a conductor, in the words of the index.

An engine's event lists blocks, each with its name and its content hash, or token ids and the names
of the blocks they fill; a pool's lists names. It all stands in a field `data` or beside `event_id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from indexer.block import GPU
from indexer.conductor.wire import Malformed
from indexer.engines.hash_field import number
from indexer.engines.pool import CHANGES, pool_event
from indexer.events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Change,
    Event,
    Reason,
)
from indexer.hashing import TOKEN_BYTES, pack
from indexer.media import TIERS, tier_of

MAX_RANK = 65535


def rank_of(event: Mapping[str, Any]) -> int:
    """The data-parallel rank an event is of. Raises Malformed."""
    rank = event.get("dp_rank")
    if rank is None:
        return 0
    if type(rank) is not int or not 0 <= rank <= MAX_RANK:
        raise Malformed(f"dp_rank: {rank!r} is no rank")
    return rank


def events_of(event: Mapping[str, Any], block_size: int) -> Sequence[Event]:
    """What an event says of an index with blocks of this size. Raises Malformed."""
    data = event.get("data", event)
    if not isinstance(data, dict):
        raise Malformed("data: expected an object")
    try:
        return _events(data, block_size)
    except KeyError as error:
        raise Malformed(f"{error} is missing") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise Malformed(str(error)) from error


def _events(data: Mapping[str, Any], block_size: int) -> Sequence[Event]:
    kind = data.get("type") or data.get("event_type") or data.get("legacy_type")
    change = CHANGES.get(kind.lower()) if isinstance(kind, str) else None
    medium = data.get("medium")
    if change is None:
        raise Malformed(f"type: {kind!r} is none of stored, removed, cleared")
    if medium is not None and not isinstance(medium, str):
        raise Malformed(f"medium: {medium!r} is no text")
    tier = tier_of(medium) if medium else GPU
    match change:
        case Change.CLEARED:
            return [AllBlocksCleared(tier if medium else None)]
        case Change.REMOVED:
            names = list(dict.fromkeys(_names(data)))
            return [BlockRemoved(names, tier, settled=True)]
        case Change.STORED if data.get("blocks"):
            return [_with_contents(data["blocks"], _parent(data), block_size, tier)]
        case Change.STORED if data.get("token_ids"):
            return [_with_tokens(data, block_size, tier)]
        case Change.STORED:
            told = pool_event({**data, "event_type": "stored"}, (tier, *TIERS))
            if isinstance(told, Reason):
                raise Malformed(f"neither blocks nor token_ids nor hashes: {told}")
            return told


def _with_contents(
    blocks: Sequence[Mapping[str, Any]], parent: int | None, block_size: int, tier: str
) -> BlockStored:
    names = [number(block["block_hash"]) for block in blocks]
    contents = [number(block["tokens_hash"]) for block in blocks]
    return BlockStored(names, parent, b"", block_size, tier, contents=contents, settled=True)


def _with_tokens(data: Mapping[str, Any], block_size: int, tier: str) -> BlockStored:
    """Of tokens that fill no whole block, and of names beyond them, nothing counts."""
    names, size = _names(data), data.get("block_size", block_size)
    if type(size) is not int or size < 1:
        raise Malformed(f"block_size: {size!r} is no number of tokens")
    tokens = pack(data["token_ids"])
    whole = min(len(names), len(tokens) // (size * TOKEN_BYTES))
    if not whole:
        raise Malformed("token_ids and block_hashes fill no block")
    packed = tokens[: whole * size * TOKEN_BYTES]
    return BlockStored(names[:whole], _parent(data), packed, size, tier, settled=True)


def _names(data: Mapping[str, Any]) -> list[int]:
    told = [*data.get("block_hashes", ()), *data.get("seq_hashes", ())]
    told += [block["block_hash"] for block in data.get("blocks", ())]
    return [number(value) for value in told]


def _parent(data: Mapping[str, Any]) -> int | None:
    parent = data.get("parent_hash")
    parent = data.get("parent_block_hash") if parent is None else parent
    return None if parent is None else number(parent) or None
