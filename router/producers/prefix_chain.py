"""Names for the blocks of a prompt where no engine has to know them.

``block = XXH64(ids as little-endian u32)``, ``name = XXH64(LE64(block) + LE64(name before))``, and
the first one follows ``XXH64(model)``, as in llm-d. A last block that is not full has a name, too,
unless the prompt goes on in a way that is not known.
The name of a block depends also on the cache salt, with a zero byte before it, and on the names of
media that lie on it: their placeholder ids are all the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from xxhash import xxh64_intdigest

from router.producers.facts import MediaItem, Tokens

TOKEN_BYTES = 4

_le64_pair = struct.Struct("<QQ").pack


def chain(
    tokens: Tokens, block_tokens: int, model: str, salt: str | None, max_blocks: int | None = None
) -> tuple[int, ...]:
    """The names of a prompt's first blocks, in order."""
    step = block_tokens * TOKEN_BYTES
    ids = memoryview(tokens.ids)
    if tokens.partial:
        ids = ids[: len(ids) // step * step]
    if max_blocks is not None:
        ids = ids[: max_blocks * step]
    name = xxh64_intdigest(model.encode() if salt is None else f"{model}\0{salt}".encode())
    media = _by_block(tokens.media, block_tokens)
    names = []
    for start in range(0, len(ids), step):
        block = xxh64_intdigest(ids[start : start + step])
        name = xxh64_intdigest(_le64_pair(block, name))
        for item in media.get(start // step, ()):
            name = xxh64_intdigest(item.encode(), name)
        names.append(name)
    return tuple(names)


def _by_block(media: Sequence[MediaItem], block_tokens: int) -> Mapping[int, Iterable[str]]:
    """Block number -> names of the items that touch it, in order of position."""
    blocks: dict[int, list[str]] = {}
    for item in media:
        last = item.offset + max(item.length, 1) - 1
        for block in range(item.offset // block_tokens, last // block_tokens + 1):
            blocks.setdefault(block, []).append(item.name)
    return blocks
