"""A naive engine with KV cache groups that knows what it can reuse, and tells events of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from indexer.hashing import pack


class Group(NamedTuple):
    """
    Attributes:
        kind: "full_attention", "sliding_window" or "mamba".
        size: Tokens per block.
        window: Tokens; of a sliding window only.
    """

    kind: str
    size: int
    window: int = 0

    def last_blocks(self, blocks: int) -> range:
        """The blocks that a prefix of so many must have there."""
        match self.kind:
            case "full_attention":
                return range(blocks)
            case "mamba":
                return range(max(0, blocks - 1), blocks)
            case _:
                return range(max(0, blocks - -(-(self.window - 1) // self.size)), blocks)


def name_of(tokens: Sequence[int]) -> int:
    """What the engine calls the block that ends a prefix, in a group of any size."""
    return xxh3_64_intdigest(pack(tokens), 7) or 1


class HybridEngine:
    def __init__(self, groups: Sequence[Group], tiers: Sequence[str] = ("GPU",)) -> None:
        self.groups = groups
        self.tiers = tiers
        self.copies: dict[tuple[int, str], Counter[int]] = {
            (number, tier): Counter() for number in range(len(groups)) for tier in tiers
        }

    def holds(self, number: int, name: int) -> bool:
        return any(self.copies[number, tier][name] > 0 for tier in self.tiers)

    def reuse(self, tokens: Sequence[int]) -> int:
        """Tokens of a prompt that the engine could reuse, were there one more behind it."""
        for end in range(len(tokens), 0, -1):
            if all(self._allows(number, tokens, end) for number in range(len(self.groups))):
                return end
        return 0

    def _allows(self, number: int, tokens: Sequence[int], end: int) -> bool:
        group = self.groups[number]
        return end % group.size == 0 and all(
            self.holds(number, name_of(tokens[: (block + 1) * group.size]))
            for block in group.last_blocks(end // group.size)
        )

    def store(
        self, number: int, tier: str, tokens: Sequence[int], start: int, kept: Sequence[int]
    ) -> dict[str, Any]:
        """Keep some blocks (`kept`) of a prompt's part from block `start` on, and tell of it."""
        group = self.groups[number]
        names = [name_of(tokens[: (block + 1) * group.size]) for block in kept]
        self.copies[number, tier].update(names)
        end = len(tokens) // group.size * group.size
        return {
            "type": "BlockStored",
            "block_hashes": names,
            "parent_block_hash": name_of(tokens[: start * group.size]) if start else None,
            "token_ids": list(tokens[start * group.size : end]),
            "block_size": group.size,
            "medium": tier,
            "group_idx": number,
            "kv_cache_spec_kind": group.kind,
            "kv_cache_spec_sliding_window": group.window or None,
        }

    def remove(self, number: int, tier: str, name: int) -> dict[str, Any]:
        self.copies[number, tier][name] -= 1
        return {
            "type": "BlockRemoved", "block_hashes": [name], "medium": tier, "group_idx": number,
        }  # fmt: skip

    def held(self) -> list[tuple[int, str, int]]:
        """Group, tier and name of everything it holds."""
        return [
            (number, tier, name)
            for (number, tier), counts in self.copies.items()
            for name, count in sorted(counts.items())
            if count > 0
        ]

    def clear(self) -> Mapping[str, Any]:
        for counts in self.copies.values():
            counts.clear()
        return {"type": "AllBlocksCleared"}
