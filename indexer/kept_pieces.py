"""Kept pieces: engine blocks smaller than the index's, as bytes to keep and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from indexer.block import MediaId


class Piece(msgspec.Struct, gc=False):
    """
    Attributes:
        before: Chain hash of the block of the index before the piece's own.
        parent: Name of the piece before it in its block; None for the first.
        tokens: Packed ids.
        media: What lies on it.
        chain: Chain hash of the block that it fills; None if it is not the last.
        followers: Names of the pieces behind it in its block.
    """

    before: int
    parent: int | None
    tokens: bytes
    media: Sequence[MediaId]
    chain: int | None = None
    followers: tuple[int, ...] = ()


class KeptPieces(msgspec.Struct, frozen=True):
    """Pieces as columns, each behind the one before it in its block.

    Attributes:
        names: 8 bytes each, little-endian.
        before: Chain hash of the block before each, likewise.
        parents: Name of the piece before each in its block, likewise; of the first its own.
        sizes: Bytes of its ids, 4 bytes each.
        tokens: The ids of all.
        media: Position → what lies on the piece: each a MediaId, which is no type to read back as.
        copies: Tier → names, and the number of copies of each, 8 bytes each.
    """

    names: bytes = b""
    before: bytes = b""
    parents: bytes = b""
    sizes: bytes = b""
    tokens: bytes = b""
    media: Mapping[int, Sequence[Any]] = {}
    copies: Mapping[str, tuple[bytes, bytes]] = {}

    def each(self) -> Iterator[tuple[int, Piece]]:
        """Name and piece."""
        names, before, parents, sizes = (
            np.frombuffer(column, width).tolist()
            for column, width in (
                (self.names, "<u8"),
                (self.before, "<u8"),
                (self.parents, "<u8"),
                (self.sizes, "<u4"),
            )
        )
        end = 0
        for at, name in enumerate(names):
            start, end = end, end + sizes[at]
            parent = None if parents[at] == name else parents[at]
            tokens = self.tokens[start:end]
            yield name, Piece(before[at], parent, tokens, self.media.get(at, ()))

    def counts(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Tier, and copies of each piece there."""
        for tier, columns in self.copies.items():
            names, counts = (np.frombuffer(column, "<u8").tolist() for column in columns)
            yield tier, dict(zip(names, counts, strict=True))


class CopiedPieces(msgspec.Struct):
    """One holder's pieces at one moment; to make columns of them takes long, and touches nothing
    that changes."""

    pieces: dict[int, Piece]
    copies: dict[str, dict[int, int]]

    def kept(self) -> KeptPieces:
        pieces = self.pieces.values()
        parents = [n if p.parent is None else p.parent for n, p in self.pieces.items()]
        return KeptPieces(
            names=np.array(list(self.pieces), "<u8").tobytes(),
            before=np.array([piece.before for piece in pieces], "<u8").tobytes(),
            parents=np.array(parents, "<u8").tobytes(),
            sizes=np.array([len(piece.tokens) for piece in pieces], "<u4").tobytes(),
            tokens=b"".join(piece.tokens for piece in pieces),
            media={at: piece.media for at, piece in enumerate(pieces) if piece.media},
            copies={
                tier: (
                    np.array(list(counts), "<u8").tobytes(),
                    np.array(list(counts.values()), "<u8").tobytes(),
                )
                for tier, counts in self.copies.items()
            },
        )
