"""What engines call their blocks: one shared map, and an overlay per holder where it differs.

An engine's hash only names a block. Most engines of a fleet call the same content by the same name,
so one map serves them all, and it has at most one name per block. A holder keeps a name in its own
overlay when the shared map has that name for other content or another name for that content. A
shared name says nothing about a holder that does not hold the block: who uses a name ("callers")
is told by the masks, less the holders that are known to use a name of their own.
"""

from __future__ import annotations

Overlay = dict[int, int]
"""One holder's own names: name → chain hash."""


class Names:
    """
    Attributes:
        shared: Name → chain hash, for all holders without an overlay entry for that name.
        aliased: Chain hash → mask of the holders that have it only under names of their own.
    """

    def __init__(self) -> None:
        self.shared: dict[int, int] = {}
        self.aliased: dict[int, int] = {}

    def callers(self, chain: int, present: int) -> int:
        """Who calls a block by its shared name; `present` is the mask of who has it."""
        return present & ~self.aliased.get(chain, 0)

    def assign(self, own: Overlay, bit: int, name: int, chain: int, present: int) -> None:
        """Let the holder's `name` mean this block from now on; it means nothing else to it."""
        known = self.shared.get(name)
        if known is None and not present:
            self.shared[name] = chain
        elif known == chain:
            self._unalias(chain, bit)
        else:
            own[name] = chain
            if not self.callers(chain, present) & bit:
                self.aliased[chain] = self.aliased.get(chain, 0) | bit

    def release(self, own: Overlay, bit: int, name: int, chain: int, present: int) -> None:
        """Forget a holder's name for a block it has no more; `present` is who else has it."""
        if own.pop(name, None) is not None:
            self._unalias(chain, bit)
        elif not self.callers(chain, present):
            self.shared.pop(name, None)

    def _unalias(self, chain: int, bit: int) -> None:
        mask = self.aliased.get(chain, 0) & ~bit
        if mask:
            self.aliased[chain] = mask
        else:
            self.aliased.pop(chain, None)
