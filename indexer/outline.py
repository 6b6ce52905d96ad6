"""Outline: what is to be known of an engine, beside its blocks, to go on with its events."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from indexer.claims import Claimed
from indexer.groups import GroupSpec
from indexer.kept_pieces import KeptPieces


class Outline(msgspec.Struct, frozen=True):
    """
    Attributes:
        block_size: Tokens per block that it computes; None where it did not tell.
        groups: Its KV cache groups, in the order in which it told of them.
        pieces: Its blocks that are smaller than the index's.
        claims: What it told by name alone, oldest first.
        speaks_of_others: It told of blocks, too, that are not its own to keep.
    """

    block_size: int | None
    groups: Sequence[GroupSpec]
    pieces: KeptPieces = KeptPieces()
    claims: Sequence[Claimed] = ()
    speaks_of_others: bool = False
