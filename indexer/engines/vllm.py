"""vLLM's KV events, and SGLang's, which are spelled alike: msgpack bytes to a `Batch`.

A message in the current layout is decoded in one typed step. Anything else is taken apart event by
event, so that a bad event costs only itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from indexer.block import CPU, GPU, MediaId
from indexer.engines.layout import (
    FIELDS,
    AnyEvent,
    AnyRemoved,
    AnyStored,
    Cleared,
    CurrentBatch,
    Removed,
    Stored,
)
from indexer.events import AllBlocksCleared, Batch, BlockRemoved, BlockStored, Event, Reason
from indexer.groups import FULL_KINDS
from indexer.hashing import TOKEN_BYTES, pack
from indexer.media import tier_of

_U64 = (1 << 64) - 1
_NAME_BYTES = 8

_TIERS: Mapping[str | None, str] = {None: GPU, "": GPU, "GPU": GPU, "CPU": CPU}
"""Media as engines write them by default; for others it is asked elsewhere."""

_REMOTE = "REMOTE"
"""Locality of blocks in storage that several engines share."""

_decode_current = msgspec.msgpack.Decoder(CurrentBatch).decode
_decode_any = msgspec.msgpack.Decoder().decode
_decode_parts = msgspec.msgpack.Decoder(list[msgspec.Raw] | dict[str, msgspec.Raw]).decode
_decode_listed = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_UNREADABLE = (msgspec.DecodeError, RecursionError)


class _Rejected(ValueError):
    """An event that cannot be taken in."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(payload: bytes) -> Batch:
    """Never raises: what cannot be read is in `rejected`."""
    try:
        batch = _decode_current(payload)
    except _UNREADABLE:
        return _decode_tolerantly(payload)
    return _batch(batch.events, batch.data_parallel_rank, batch.ts)


def _decode_tolerantly(payload: bytes) -> Batch:
    try:
        content = _content(payload)
    except _UNREADABLE:
        return Batch((), rejected=(Reason.NOT_MSGPACK,))
    if isinstance(content, dict):
        rank = content.get("data_parallel_rank", content.get("attn_dp_rank"))
        content = [content.get("ts"), content.get("events"), rank]
    if not isinstance(content, list) or len(content) < 2 or not isinstance(content[1], list):
        return Batch((), rejected=(Reason.BAD_BATCH,))
    ts = float(content[0]) if isinstance(content[0], int | float) else None
    rank = content[2] if len(content) > 2 else None
    return _batch(content[1], rank if type(rank) is int and rank >= 0 else None, ts)


def _content(payload: bytes) -> Any:
    """The message's parts. Raises DecodeError or RecursionError.

    Where one event makes the whole unreadable, as text does that is none, all are left packed: then
    that one fails by itself.
    """
    try:
        return _decode_any(payload)
    except _UNREADABLE:
        parts = _decode_parts(payload)
    if isinstance(parts, dict):
        return {name: _part(part, is_events=name == "events") for name, part in parts.items()}
    return [_part(part, is_events=at == 1) for at, part in enumerate(parts)]


def _part(part: msgspec.Raw, *, is_events: bool) -> Any:
    return [bytes(event) for event in _decode_listed(part)] if is_events else _decode_any(part)


def _batch(raw_events: Sequence[Any], rank: int | None, ts: float | None) -> Batch:
    events: list[Event] = []
    rejected: list[Reason] = []
    for raw in raw_events:
        try:
            events.append(_event(raw))
        except _Rejected as error:
            rejected.append(error.reason)
        except (msgspec.ValidationError, OverflowError):
            rejected.append(Reason.BAD_EVENT)
    return Batch(events, rank, ts, rejected)


def _event(raw: object) -> Event:
    match raw:
        case Stored():
            return _stored(raw, raw.block_hashes, raw.parent_block_hash)
        case Removed():
            return _removed(raw, raw.block_hashes)
        case Cleared():
            return AllBlocksCleared(None if raw.medium is None else _tier(raw.medium))
        case AnyStored():
            parent = raw.parent_block_hash
            return _stored(raw, _names(raw.block_hashes), None if parent is None else _name(parent))
        case AnyRemoved():
            return _removed(raw, _names(raw.block_hashes))
        case _:
            return _event(_typed(raw))


def _typed(raw: object) -> AnyEvent:
    """An event of any layout with its fields named and their types checked."""
    if isinstance(raw, bytes):
        try:
            raw = _decode_any(raw)
        except _UNREADABLE:
            raise _Rejected(Reason.BAD_EVENT) from None
    if isinstance(raw, list) and raw:
        raw = _named(raw)
    if not isinstance(raw, dict):
        raise _Rejected(Reason.BAD_EVENT)
    if not isinstance(raw.get("type"), str) or raw["type"] not in FIELDS:
        raise _Rejected(Reason.UNKNOWN_EVENT)
    if _are_bigrams(raw.get("token_ids")):
        raise _Rejected(Reason.BIGRAM_TOKENS)
    event: AnyEvent = msgspec.convert(raw, AnyEvent)
    return event


def _named(raw: list[Any]) -> dict[str, Any]:
    tag = raw[0] if isinstance(raw[0], str) else ""
    fields = dict(zip(FIELDS.get(tag, ()), raw[1:], strict=False))
    metadata = fields.get("lora_name")
    if isinstance(metadata, dict):  # SGLang of mid-2026 has its metadata where vLLM has the name
        fields |= {"lora_name": None, "cache_salt": metadata.get("cache_salt")}
    return {"type": tag, **fields}


def _are_bigrams(token_ids: object) -> bool:
    """SGLang with EAGLE's bigram keys lists pairs, and they tell another content than ids do."""
    return isinstance(token_ids, list) and bool(token_ids) and isinstance(token_ids[0], list)


def _removed(raw: Removed | AnyRemoved, names: Sequence[int]) -> BlockRemoved:
    return BlockRemoved(names, _tier(raw.medium), raw.group_idx, raw.locality == _REMOTE)


def _stored(raw: Stored | AnyStored, names: Sequence[int], parent: int | None) -> BlockStored:
    tokens = pack(raw.token_ids)
    if tokens and len(tokens) != len(names) * raw.block_size * TOKEN_BYTES:
        if not _is_sparse(raw):
            raise _Rejected(Reason.COUNT_MISMATCH)
        tokens = b""
    parent = parent or None  # some emitters write 0 for none
    lora = raw.lora_name or None
    salt, media = raw.cache_salt or None, None
    if raw.metadata is not None and salt is None:
        salt = _text(raw.metadata.get("cache_salt"))
    if tokens and raw.extra_keys is not None and any(raw.extra_keys):
        if len(raw.extra_keys) != len(names):
            raise _Rejected(Reason.COUNT_MISMATCH)
        found, media = _extra(raw.extra_keys, lora, parent is None)
        salt = found or salt
    return BlockStored(
        names,
        parent,
        tokens,
        raw.block_size,
        _tier(raw.medium),
        lora,
        None if lora else raw.lora_id,
        salt,
        media,
        raw.group_idx,
        raw.kv_cache_spec_kind,
        raw.kv_cache_spec_sliding_window,
        raw.locality == _REMOTE,
    )


def _is_sparse(raw: Stored | AnyStored) -> bool:
    """Whether a group that keeps only some blocks lists fewer names than its tokens fill."""
    told = raw.group_idx is not None and raw.kv_cache_spec_kind not in FULL_KINDS
    return told and 0 < raw.block_size * len(raw.block_hashes or [1]) <= len(raw.token_ids)


def _text(value: object) -> str | None:
    """A salt in metadata; what is none keeps blocks apart all the same."""
    if value is None or isinstance(value, str):
        return value or None
    raise _Rejected(Reason.BAD_EVENT)


def _extra(
    extra_keys: Sequence[list[Any] | None], lora: str | None, from_start: bool
) -> tuple[str | None, dict[int, list[MediaId]] | None]:
    """Salt and media among the untagged keys that vLLM lists per block.

    The order is adapter, media, salt (first block only), prompt embeddings. Bare text is the
    adapter's name once; the last other bare text of a sequence's first block is the salt.
    """
    salt: str | None = None
    media: dict[int, list[MediaId]] = {}
    for number, keys in enumerate(extra_keys):
        rest = list(keys or ())
        if lora and lora in rest:
            rest.remove(lora)
        texts = [key for key in rest if isinstance(key, str)]
        if number == 0 and from_start and texts:
            salt = texts[-1]
            rest.remove(salt)
        if rest:
            media[number] = [_media(key) for key in rest]
    return salt, media or None


def _media(key: object) -> MediaId:
    match key:
        case str() | bytes():
            return key
        case [str(identifier), int()]:
            return identifier
        case _:
            # Not understood, yet part of the engine's hash: nothing without it may match.
            return msgspec.msgpack.encode(key)


def _names(hashes: Sequence[int | bytes]) -> list[int]:
    return [_name(value) for value in hashes]


def _name(value: int | bytes) -> int:
    """Signed and unsigned spellings of a hash, and a digest's last eight bytes, are one name."""
    if isinstance(value, int):
        return value & _U64
    if not value:
        raise _Rejected(Reason.BAD_EVENT)
    return int.from_bytes(value[-_NAME_BYTES:], "big")


def _tier(medium: str | None) -> str:
    return _TIERS.get(medium) or tier_of(medium or "")
