"""Ledgers of two holders on one index."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.block import Holder, Identity, Match
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2


class Bench:
    """An index with ledgers on it."""

    def __init__(self, block_size: int = 16) -> None:
        self.index = BlockIndex(block_size)
        self.guesses = Speculative(self.index.bits)
        self.ledgers = {h: Ledger(h, self.index, self.guesses) for h in (E1, E2)}
        self.e1 = self.ledgers[E1]

    def matches(
        self,
        tokens: Sequence[int] | None = None,
        identity: Identity = BASE,
        media: dict[int, list[str | bytes]] | None = None,
    ) -> dict[Holder, Match]:
        ids = make.prompt() if tokens is None else tokens
        hashes = block_hashes(pack(ids), self.index.block_size, root(identity), media)
        return self.index.match(hashes, self.guesses.masks)

    def score(self, identity: Identity = BASE, holder: Holder = E1) -> int:
        match = self.matches(identity=identity).get(holder)
        return match.blocks if match else 0
