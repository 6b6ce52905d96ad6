"""TensorRT-LLM's KV events: the JSON list that its server hands out when asked, to batches.

Every event has a number of its own, as messages of other engines have. A block that is not full is
told too, and without the size of a full one: a block is known to be full when others follow it in
its event, or when it is as large as such a one. Pools with different attention windows are groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from indexer.block import CPU, GPU, MediaId
from indexer.events import Batch, BlockRemoved, BlockStored, Event, Reason
from indexer.hashing import pack

_U64 = (1 << 64) - 1

_TIERS = (GPU, CPU)
"""By cache level."""

_Level = Annotated[int, msgspec.Meta(ge=0, lt=len(_TIERS))]
_Unsigned = Annotated[int, msgspec.Meta(ge=0)]


class _Token(msgspec.Struct):
    token_id: int
    token_extra_id: int = 0


class _MediaKey(msgspec.Struct):
    hash: str


class _Block(msgspec.Struct):
    block_hash: int
    tokens: list[_Token]
    cache_level: _Level = 0
    mm_keys: list[_MediaKey] = []


class _Created(msgspec.Struct, tag_field="type", tag="created"):
    pass


class _Stored(msgspec.Struct, tag_field="type", tag="stored"):
    blocks: list[_Block]
    parent_hash: int | None = None


class _Removed(msgspec.Struct, tag_field="type", tag="removed"):
    block_hashes: list[int]


class _Moved(msgspec.Struct):
    old_value: _Level
    new_value: _Level


class _Updated(msgspec.Struct, tag_field="type", tag="updated"):
    block_hash: int
    cache_level: _Moved | None = None


class _Numbered(msgspec.Struct):
    event_id: _Unsigned


class _Message(_Numbered):
    data: _Created | _Stored | _Removed | _Updated
    window_size: _Unsigned | None = None
    attention_dp_rank: _Unsigned | None = None


class Entry(msgspec.Struct, frozen=True):
    """One event of an answer.

    Attributes:
        seq: Its number; None where it has none that can be read.
        batch: What it says; empty for what says nothing about blocks.
    """

    seq: int | None
    batch: Batch


class Decoder:
    """One engine's decoder: what it learned from earlier answers tells how to read later ones.

    Args:
        block_size: Tokens per block; None: to be learnt.
    """

    def __init__(self, block_size: int | None = None) -> None:
        self._block_size = block_size
        self._windows: list[int] = []

    def decode(self, payload: bytes) -> Sequence[Entry]:
        """Never raises: what cannot be read is rejected in an entry."""
        try:
            raw_events = msgspec.json.decode(payload, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return [Entry(None, Batch((), rejected=(Reason.BAD_BATCH,)))]
        messages = [_message(raw) for raw in raw_events]
        for message in messages:
            if isinstance(message, _Message):
                self._learn(message)
        return [
            self._entry(message) if isinstance(message, _Message) else message
            for message in messages
        ]

    def _learn(self, message: _Message) -> None:
        window = message.window_size
        if window is not None and window not in self._windows:
            self._windows.append(window)
        if isinstance(message.data, _Stored):
            full = [len(block.tokens) for block in message.data.blocks[:-1]]
            if full:
                self._block_size = max(self._block_size or 0, *full)

    def _entry(self, message: _Message) -> Entry:
        rejected: list[Reason] = []
        try:
            events = list(self._events(message, rejected))
        except (OverflowError, ValueError):
            events, rejected = [], [Reason.BAD_EVENT]
        return Entry(message.event_id, Batch(events, message.attention_dp_rank, None, rejected))

    def _events(self, message: _Message, rejected: list[Reason]) -> Iterator[Event]:
        window = message.window_size
        group = None if window is None else self._windows.index(window)
        match message.data:
            case _Stored():
                yield from self._stored(message.data, window, group, rejected)
            case _Removed():
                names = [_name(value) for value in message.data.block_hashes]
                for tier in _TIERS:  # it lies in one of them, which is not told
                    yield BlockRemoved(names, tier, group)
            case _Updated():
                moved = message.data.cache_level
                if moved is not None and moved.old_value != moved.new_value:
                    names = [_name(message.data.block_hash)]
                    tier = _TIERS[moved.new_value]
                    yield BlockStored(names, None, b"", 0, tier, group=group)
                    yield BlockRemoved(names, _TIERS[moved.old_value], group)
            case _Created():
                pass

    def _stored(
        self, data: _Stored, window: int | None, group: int | None, rejected: list[Reason]
    ) -> Iterator[BlockStored]:
        parent = None if not data.parent_hash else _name(data.parent_hash)
        sliding = window is not None and window < max(self._windows)
        kind = None if group is None else ("sliding_window" if sliding else "full_attention")
        for block in data.blocks:
            if len(block.tokens) != self._block_size:
                rejected.append(Reason.PARTIAL_BLOCK)
                return
            name = _name(block.block_hash)
            yield BlockStored(
                [name],
                parent,
                pack(token.token_id for token in block.tokens),
                len(block.tokens),
                _TIERS[block.cache_level],
                media=_media(block),
                group=group,
                group_kind=kind,
                window=window if sliding else None,
            )
            parent = name


def _message(raw: msgspec.Raw) -> _Message | Entry:
    """An event with its types checked, or the entry of one that cannot be read."""
    try:
        return msgspec.json.decode(raw, type=_Message)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        seq = msgspec.json.decode(raw, type=_Numbered).event_id
    except (msgspec.DecodeError, RecursionError):
        seq = None
    return Entry(seq, Batch((), rejected=(Reason.BAD_EVENT,)))


def _media(block: _Block) -> dict[int, list[MediaId]] | None:
    """Media on a block; extra ids whose media is not told keep it apart from all others."""
    keys: list[MediaId] = [key.hash for key in block.mm_keys]
    if not keys and any(token.token_extra_id for token in block.tokens):
        keys = [msgspec.msgpack.encode([token.token_extra_id for token in block.tokens])]
    return {0: keys} if keys else None


def _name(value: int) -> int:
    if not -(1 << 63) <= value <= _U64:
        raise ValueError(value)
    return value & _U64
