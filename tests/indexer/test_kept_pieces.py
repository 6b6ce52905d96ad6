"""Pieces as columns: all that is not told by the others comes back, in order."""

from __future__ import annotations

import msgspec

from indexer.kept_pieces import CopiedPieces, KeptPieces, Piece

PIECES = {
    2**64 - 1: Piece(2**63, None, b"\1\0\0\0", ("image", b"digest"), None, (7, 8)),
    7: Piece(2**63, 2**64 - 1, b"\2\0\0\0\3\0\0\0", (), 99),
    8: Piece(2**63, 2**64 - 1, b"\4\0\0\0", ["image"]),
}
COPIES = {"gpu": {7: 2, 8: 1}, "cpu": dict[int, int]()}


def test_what_is_kept_comes_back_from_bytes() -> None:
    packed = msgspec.msgpack.encode(CopiedPieces(PIECES, COPIES).kept())
    kept = msgspec.msgpack.decode(packed, type=KeptPieces)
    assert dict(kept.counts()) == COPIES
    found = [(n, p.before, p.parent, p.tokens, tuple(p.media)) for n, p in kept.each()]
    assert found == [(n, p.before, p.parent, p.tokens, tuple(p.media)) for n, p in PIECES.items()]
    assert all(piece.chain is None and not piece.followers for _, piece in kept.each())


def test_nothing_is_kept_of_nothing() -> None:
    assert list(CopiedPieces({}, {}).kept().each()) == list(KeptPieces().each()) == []
