"""Every layout in which engines have written KV events, made from the one of today.

Not all of them can say everything: which adapter a block belongs to, or which salt, came late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from indexer.engines.layout import FIELDS

Fields = dict[str, Any]
Write = Callable[[Fields], Iterator[Any]]
"""An event as a map, as vLLM writes it today -> one or more events of another layout."""

encode = msgspec.msgpack.encode


class Layout(msgspec.Struct, frozen=True):
    """
    Attributes:
        tells_adapter: The name of a LoRA adapter has a place in it.
        tells_salt: So has a request's salt.
        hides_adapter: It does not even tell that there is an adapter.
    """

    write: Write
    tells_adapter: bool = True
    tells_salt: bool = True
    hides_adapter: bool = False


def payload(original: bytes, layout: Layout) -> bytes:
    """A message's payload with its events in another layout."""
    ts, events, *rank = msgspec.msgpack.decode(original)
    return encode([ts, [new for event in events for new in layout.write(event)], *rank])


def _arrays(last: str, removed: int) -> Write:
    """Arrays as vLLM wrote them, up to a field; what is nil at the end is not written."""

    def write(event: Fields) -> Iterator[list[Any]]:
        names = FIELDS[event["type"]]
        count = names.index(last) + 1 if event["type"] == "BlockStored" else removed
        fields = [event.get(name) for name in names[:count]]
        while fields and fields[-1] is None:
            fields.pop()
        yield [event["type"], *fields]

    return write


def _maps(spell: Callable[[Any], Any]) -> Write:
    """Maps with other names for blocks."""

    def write(event: Fields) -> Iterator[Fields]:
        yield _named(event, spell)

    return write


def _named(event: Fields, spell: Callable[[Any], Any]) -> Fields:
    changed = dict(event)
    if "block_hashes" in event:
        changed["block_hashes"] = [spell(name) for name in event["block_hashes"]]
    if event.get("parent_block_hash") is not None:
        changed["parent_block_hash"] = spell(event["parent_block_hash"])
    return changed


def number(name: int | bytes) -> int:
    """As vLLM shortens a digest."""
    return int.from_bytes(name[-8:], "big") if isinstance(name, bytes) else name


def _signed(name: int | bytes) -> int:
    return (number(name) + 2**63) % 2**64 - 2**63


def _digest(name: int | bytes) -> bytes:
    return b"\x17" * 24 + number(name).to_bytes(8, "big")


def _short(name: int | bytes) -> bytes:
    return number(name).to_bytes(8, "big")


def _pages(event: Fields) -> Iterator[Fields]:
    """SGLang tells one page per event, under signed names."""
    event = _named(event, _signed)
    if event["type"] != "BlockStored":
        yield {key: value for key, value in event.items() if key != "group_idx"}
        return
    size, parent = event["block_size"], event["parent_block_hash"]
    for at, name in enumerate(event["block_hashes"]):
        tokens = event["token_ids"][at * size : (at + 1) * size]
        first = (
            {"cache_salt": _salt(event)} if event["parent_block_hash"] is None and not at else {}
        )
        page = {"type": "BlockStored", "block_hashes": [name], "parent_block_hash": parent}
        told = {"token_ids": tokens, "block_size": size, "lora_id": None, "medium": event["medium"]}
        yield {**page, **told, "lora_name": event.get("lora_name"), **first}
        parent = name


def _salt(event: Fields) -> str | None:
    """What of the first block's extra keys is no adapter's name."""
    keys = (event.get("extra_keys") or [None])[0] or []
    return next((key for key in keys if key != event.get("lora_name")), None)


def _sglang_array(width: int, *, metadata: bool = False) -> Write:
    def write(event: Fields) -> Iterator[list[Any]]:
        for page in _pages(event):
            fields = [page.get(name) for name in FIELDS[page["type"]]]
            if page["type"] != "BlockStored":
                yield [page["type"], *fields[:2]] if width > 5 else [page["type"], *fields[:1]]
            elif metadata:
                salt = page.get("cache_salt")
                yield [page["type"], *fields[:6], {"cache_salt": salt} if salt else {}]
            else:
                yield [page["type"], *fields[:width]]

    return write


def _sglang_map(*left_out: str) -> Write:
    def write(event: Fields) -> Iterator[Fields]:
        for page in _pages(event):
            yield {key: value for key, value in page.items() if key not in left_out}

    return write


def _wrapped(event: Fields) -> Iterator[bytes]:
    yield encode(event)


def _with_unknown_fields(event: Fields) -> Iterator[Fields]:
    yield {**event, "novel": [1, {"x": None}], "another": b"\x00"}


def _longer_arrays(event: Fields) -> Iterator[list[Any]]:
    if event["type"] == "BlockStored":
        yield [event["type"], *(event.get(name) for name in FIELDS["BlockStored"]), "new", [1]]
    else:
        yield [event["type"], *(event.get(name) for name in FIELDS[event["type"]]), "new"]


LAYOUTS: Mapping[str, Layout] = {
    "vllm 0.9": Layout(_arrays("lora_id", 1), tells_adapter=False, tells_salt=False),
    "vllm 0.10.2": Layout(_arrays("medium", 2), tells_adapter=False, tells_salt=False),
    "vllm 0.14": Layout(_arrays("lora_name", 2), tells_salt=False),
    "vllm 0.17": Layout(_arrays("extra_keys", 2)),
    "vllm 0.20": Layout(_arrays("group_idx", 3)),
    "vllm 0.22": Layout(_arrays("kv_cache_spec_sliding_window", 3)),
    "vllm of tomorrow, arrays": Layout(_longer_arrays),
    "vllm 0.24, numbers": Layout(_maps(number)),
    "vllm 0.24, signed": Layout(_maps(_signed)),
    "vllm 0.24, digests": Layout(_maps(_digest)),
    "vllm 0.24, short digests": Layout(_maps(_short)),
    "vllm of tomorrow, maps": Layout(_with_unknown_fields),
    "wrapped": Layout(_wrapped),
    "sglang 0.5.6": Layout(
        _sglang_array(5), tells_adapter=False, tells_salt=False, hides_adapter=True
    ),
    "sglang 0.5.9": Layout(
        _sglang_array(6), tells_adapter=False, tells_salt=False, hides_adapter=True
    ),
    "sglang with metadata": Layout(
        _sglang_array(6, metadata=True), tells_adapter=False, hides_adapter=True
    ),
    "sglang 0.5.20": Layout(_sglang_map("lora_name"), tells_adapter=False, hides_adapter=True),
    "sglang 0.5.23": Layout(_sglang_map()),
}

BATCHES: Mapping[str, Callable[[float, Sequence[Any], int], Any]] = {
    "two elements": lambda ts, events, rank: [ts, events],
    "three": lambda ts, events, rank: [ts, events, rank],
    "four": lambda ts, events, rank: [ts, events, rank, "new"],
    "rank nil": lambda ts, events, rank: [ts, events, None],
    "whole seconds": lambda ts, events, rank: [int(ts), events, rank],
    "map": lambda ts, events, rank: {"ts": ts, "events": events, "data_parallel_rank": rank},
    "map without rank": lambda ts, events, rank: {"ts": ts, "events": events},
}
