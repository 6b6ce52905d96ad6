"""Block hashes: a name for each full block of a prompt that covers everything before it.

Two steps. ``local = xxh3_64(ids as little-endian u32, seed 1337)`` names a block's own content (the
value other routers use too); ``chain = xxh3_64(LE64(local), seed = chain of the block before)``
names the whole prefix. The first block's seed is the root of its `Identity`. Media that lie on a
block follow the local hash, so that blocks before an image still match without it.
"""

from __future__ import annotations

import functools
import struct
import sys
from array import array
from collections.abc import Iterable
from itertools import chain

from xxhash import xxh3_64_intdigest

from indexer.block import Identity, MediaId, MediaIds

LOCAL_SEED = 1337
"""Seed of content hashes in Dynamo, MindIE Motor and pool events."""

TOKEN_BYTES = 4

_STRIDE = 64
"""Blocks cut at a time; bounded, since `struct` keeps what it learns of each such count."""

_SWAPS = sys.byteorder == "big"

_le32 = struct.Struct("<I").pack
_le64 = struct.Struct("<Q").pack


def pack(ids: Iterable[int]) -> bytes:
    """Token ids as little-endian u32; raises OverflowError or TypeError for what does not fit."""
    packed = array("I", ids)
    if _SWAPS:
        packed.byteswap()
    return packed.tobytes()


@functools.lru_cache(maxsize=1024)
def root(identity: Identity, unnamed_adapter: int | None = None) -> int:
    """The parent of an identity's first block.

    `unnamed_adapter` is an adapter number that an engine did not name: numbers differ between
    engines, so its root has one part more than any request's and equals none of them.
    """
    parts = [identity.model, identity.lora, identity.salt]
    if unnamed_adapter is not None:
        parts.append(str(unnamed_adapter))
    return xxh3_64_intdigest(b"".join(map(_part, parts)), LOCAL_SEED)


def block_hashes(
    tokens: bytes, block_size: int, parent: int, media: MediaIds | None = None
) -> list[int]:
    """Chain hashes of the full blocks of packed `tokens`; a trailing partial block has none."""
    block_bytes = block_size * TOKEN_BYTES
    if len(tokens) == block_bytes and not media:  # as engines send them while they decode
        return [xxh3_64_intdigest(_le64(xxh3_64_intdigest(tokens, LOCAL_SEED)), parent)]
    blocks = _blocks(tokens, block_bytes)
    if media:
        return _with_media(blocks, parent, media)
    hash64, le64 = xxh3_64_intdigest, _le64
    return [parent := hash64(le64(hash64(block, LOCAL_SEED)), parent) for block in blocks]


def chain_hashes(contents: Iterable[int], parent: int) -> list[int]:
    """Chain hashes of blocks of which the content hashes are known."""
    return [parent := xxh3_64_intdigest(_le64(content), parent) for content in contents]


def content_hashes(tokens: bytes, block_size: int) -> list[int]:
    """Content hashes of the full blocks of packed `tokens`."""
    blocks = _blocks(tokens, block_size * TOKEN_BYTES)
    return [xxh3_64_intdigest(block, LOCAL_SEED) for block in blocks]


def spread_media(media: MediaIds, parts: int) -> MediaIds:
    """Media of blocks that are split: on each part of such a block."""
    return {number * parts + part: ids for number, ids in media.items() for part in range(parts)}


def _blocks(tokens: bytes, block_bytes: int) -> Iterable[bytes]:
    """The full blocks. They are cut many at a time, which spares most of the work on each."""
    block = f"{block_bytes}s"
    count = len(tokens) // block_bytes
    if count <= _STRIDE:
        return struct.unpack_from(block * count, tokens)
    rest = count % _STRIDE
    whole = memoryview(tokens)[: (count - rest) * block_bytes]
    rows = chain.from_iterable(struct.iter_unpack(block * _STRIDE, whole))
    return chain(rows, struct.unpack_from(block * rest, tokens, len(whole)))


def _with_media(blocks: Iterable[bytes], parent: int, media: MediaIds) -> list[int]:
    hashes = []
    for number, block in enumerate(blocks):
        content = _le64(xxh3_64_intdigest(block, LOCAL_SEED))
        content += b"".join(map(_media_part, media.get(number, ())))
        parent = xxh3_64_intdigest(content, parent)
        hashes.append(parent)
    return hashes


def _part(text: str | None) -> bytes:
    """Length-prefixed, so that no two lists of parts share an encoding; None is not ""."""
    if text is None:
        return _le32(0)
    encoded = text.encode("utf-8", "surrogatepass")
    return _le32(len(encoded) + 1) + encoded


def _media_part(media: MediaId) -> bytes:
    if isinstance(media, str):
        return b"m" + _part(media)
    return b"d" + _le32(len(media)) + media
