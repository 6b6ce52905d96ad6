"""What engines call their blocks: one shared map, and an overlay per holder where it differs.

An engine's hash only names a block. Most engines of a fleet call the same content by the same name,
so one map serves them all, and it has at most one name per block. A holder keeps a name in its own
overlay when the shared map has that name for other content or another name for that content. A
shared name says nothing about a holder that does not hold the block: who uses a name ("callers")
is told by the masks, less the holders that are known to use a name of their own.
"""

from __future__ import annotations

Block = int | tuple[int, ...]
"""What one name stands for: a chain hash, or several where an engine's blocks are split."""

Overlay = dict[int, Block]
"""One holder's own names."""


def chains_of(block: Block) -> tuple[int, ...]:
    return block if isinstance(block, tuple) else (block,)


def last_of(block: Block) -> int:
    """The chain hash that stands for a block: its last, which its children continue."""
    return block[-1] if isinstance(block, tuple) else block


class Names:
    """
    Attributes:
        shared: Name → block, for all holders without an overlay entry for that name.
        aliased: Chain hash → mask of the holders that have it only under names of their own.
    """

    def __init__(self) -> None:
        self.shared: dict[int, Block] = {}
        self.aliased: dict[int, int] = {}

    def callers(self, block: Block, present: int) -> int:
        """Who calls a block by its shared name; `present` is the mask of who has it."""
        return present & ~self.aliased.get(last_of(block), 0)

    def assign(self, own: Overlay, bit: int, name: int, block: Block, present: int) -> None:
        """Let the holder's `name` mean `block` from now on; it means nothing else to it."""
        known = self.shared.get(name)
        if known is None and not present:
            self.shared[name] = block
        elif known == block:
            self._unalias(block, bit)
        else:
            own[name] = block
            if not self.callers(block, present) & bit:
                for chain in chains_of(block):
                    self.aliased[chain] = self.aliased.get(chain, 0) | bit

    def release(self, own: Overlay, bit: int, name: int, block: Block, present: int) -> None:
        """Forget a holder's name for a block it has no more; `present` is who else has it."""
        if own.pop(name, None) is not None:
            self._unalias(block, bit)
        elif not self.callers(block, present):
            self.shared.pop(name, None)

    def _unalias(self, block: Block, bit: int) -> None:
        for chain in chains_of(block):
            mask = self.aliased.get(chain, 0) & ~bit
            if mask:
                self.aliased[chain] = mask
            else:
                self.aliased.pop(chain, None)
