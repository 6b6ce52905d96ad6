"""Pieces: engine blocks smaller than the index's, put together to blocks that prompts can match.

A block of the index is there, in a tier, while all the pieces that fill it are there. Its name is
made from that of its last piece and is not that name: whoever tells of the piece alone, as shared
storage and pools do, does not tell of the block. A piece that is gone is remembered while pieces
behind it are left, so that the block is there again as soon as the piece is.
"""

from __future__ import annotations

from collections.abc import Sequence

from indexer.block import Holder, MediaId
from indexer.events import BlockStored
from indexer.hashing import TOKEN_BYTES, block_hashes
from indexer.index import BlockIndex
from indexer.kept_pieces import CopiedPieces, KeptPieces, Piece

_APART = 0x9E3779B97F4A7C15
"""Sets the name of a block apart from that of its last piece."""


class Pieces:
    """One holder's pieces."""

    def __init__(self, holder: Holder, index: BlockIndex) -> None:
        self._holder = holder
        self._index = index
        self._pieces: dict[int, Piece] = {}
        self._copies: dict[str, dict[int, int]] = {}
        """Tier → piece → copies; only pieces that are there."""

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def _counts(self) -> bool:
        return self._index.count_repeats and not self._index.traits.is_shared(self._holder)

    def __contains__(self, name: int) -> bool:
        return name in self._pieces

    def chain(self, name: int) -> int | None:
        """The chain hash of the block that a piece fills."""
        piece = self._pieces.get(name)
        return piece.chain if piece else None

    def store(self, event: BlockStored, root: int | None) -> list[int]:
        """Take pieces in behind their parent, or behind a block; returns the blocks now there.

        Stops before a piece that reaches beyond its block.
        """
        there: list[int] = []
        before, parent = root, None
        if event.parent is not None and event.parent in self._pieces:
            known = self._pieces[event.parent]
            before, parent = known.chain, None
            if known.chain is None:
                before, parent = known.before, event.parent
        size = event.block_size * TOKEN_BYTES
        for number, name in enumerate(event.names):
            tokens = event.tokens[number * size : (number + 1) * size]
            media = (event.media or {}).get(number, ())
            if before is None or not self._fits(parent, size):
                break
            if name not in self._pieces and not self._index.has_room(self._holder):
                break
            piece = self._take_in(name, Piece(before, parent, tokens, media))
            if piece is None:
                break
            there += self._add(event.tier, name)
            before, parent = (before, name) if piece.chain is None else (piece.chain, None)
        return there

    def locate(self, tier: str, name: int) -> list[int]:
        """A piece lies in this tier too; returns the chain hashes of blocks now there."""
        return self._add(tier, name)

    def remove(self, tier: str, name: int) -> list[int]:
        """Take one copy of a piece away; returns the chain hashes now gone from this tier."""
        copies = self._copies.get(tier, {})
        if name not in copies:
            return []
        if copies[name] > 1 and self._counts:
            copies[name] -= 1
            return []
        return self._leave(tier, name)

    def clear(self) -> None:
        """Forget all; the index is told apart."""
        self._index.pieces[self._holder.address] -= len(self._pieces)
        self._pieces.clear()
        self._copies.clear()

    def clear_tier(self, tier: str) -> None:
        """Forget one tier; the index is told apart."""
        for name in self._copies.pop(tier, {}):
            self._forget(name)

    def copy(self) -> CopiedPieces:
        """For `restore`."""
        copies = {tier: dict(copies) for tier, copies in self._copies.items()}
        return CopiedPieces(dict(self._pieces), copies)

    def restore(self, kept: KeptPieces) -> bool:
        """Know what was kept; the index is given the blocks elsewhere. False if not all had room.

        There are none yet.
        """
        fits = True
        for name, piece in kept.each():
            if piece.parent is not None and piece.parent not in self._pieces:
                continue  # there was no room for it
            if self._index.has_room(self._holder):
                self._take_in(name, piece)
            else:
                fits = False
        for tier, counts in kept.counts():
            self._copies[tier] = {n: count for n, count in counts.items() if n in self._pieces}
        return fits

    def _take_in(self, name: int, piece: Piece) -> Piece | None:
        """The piece of this name and content; one of other content is withdrawn.

        None if that took the piece before it away too.
        """
        known = self._pieces.get(name)
        if known is not None:
            same = (known.before, known.parent, known.tokens, tuple(known.media))
            if same == (piece.before, piece.parent, piece.tokens, tuple(piece.media)):
                return known
            self._withdraw(name)
            if piece.parent is not None and piece.parent not in self._pieces:
                return None
        self._pieces[name] = piece
        self._index.pieces[self._holder.address] += 1
        if piece.parent is not None:
            self._pieces[piece.parent].followers += (name,)
        parts = self._parts(name)
        tokens = b"".join(part.tokens for part in parts)
        if len(tokens) == self._index.block_size * TOKEN_BYTES:
            media = _joined(parts)
            (piece.chain,) = block_hashes(
                tokens, self._index.block_size, piece.before, {0: media} if media else None
            )
        return piece

    def _fits(self, parent: int | None, size: int) -> bool:
        filled = 0 if parent is None else sum(len(part.tokens) for part in self._parts(parent))
        return filled + size <= self._index.block_size * TOKEN_BYTES

    def _withdraw(self, name: int) -> None:
        """The name means something else from now on: what is behind it is not there either."""
        behind = [name]
        for one in behind:
            behind += self._pieces[one].followers
        for one in reversed(behind):
            for tier in list(self._copies):
                if one in self._copies[tier]:
                    self._leave(tier, one)
            self._forget(one)

    def _add(self, tier: str, name: int) -> list[int]:
        copies = self._copies.setdefault(tier, {})
        copies[name] = copies.get(name, 0) + 1
        if copies[name] > 1:
            return []
        ends = self._complete(tier, name)
        for end, chain in ends:
            self._index.store(self._holder, tier, [end ^ _APART], [chain])
        return [chain for _, chain in ends]

    def _leave(self, tier: str, name: int) -> list[int]:
        gone: list[int] = []
        for end, _ in self._complete(tier, name):
            gone += self._index.remove(self._holder, tier, [end ^ _APART])
        del self._copies[tier][name]
        self._forget(name)
        return gone

    def _complete(self, tier: str, name: int) -> list[tuple[int, int]]:
        """Last pieces, and chain hashes, of the whole blocks in a tier that this is part of."""
        copies = self._copies[tier]
        at = self._pieces[name].parent
        while at is not None:
            if at not in copies:
                return []
            at = self._pieces[at].parent
        ends, pending = [], [name]
        while pending:
            at = pending.pop()
            if at in copies:
                piece = self._pieces[at]
                pending += piece.followers
                if piece.chain is not None:
                    ends.append((at, piece.chain))
        return ends

    def _forget(self, name: int | None) -> None:
        """Let go of a piece that is nowhere and has none behind it, and of such before it."""
        while name is not None:
            piece = self._pieces.get(name)
            if piece is None or piece.followers:
                return
            if any(name in copies for copies in self._copies.values()):
                return
            del self._pieces[name]
            self._index.pieces[self._holder.address] -= 1
            if piece.parent is not None:
                before = self._pieces[piece.parent]
                before.followers = tuple(other for other in before.followers if other != name)
            name = piece.parent

    def _parts(self, name: int) -> list[Piece]:
        """The pieces of a block up to this one, in order."""
        parts = []
        at: int | None = name
        while at is not None:
            piece = self._pieces[at]
            parts.append(piece)
            at = piece.parent
        return parts[::-1]


def _joined(parts: Sequence[Piece]) -> list[MediaId]:
    """Media of a whole block; of two neighbours, the last item of one may go on in the other."""
    media: list[MediaId] = []
    for part in parts:
        goes_on = bool(media and part.media) and media[-1] == part.media[0]
        media += part.media[1:] if goes_on else part.media
    return media
