"""Which bit stands for which holder in every mask of the index."""

from __future__ import annotations

import heapq

from indexer.block import Holder

_DECODED_MASKS = 1024
"""Decoded masks kept; a fleet has few distinct ones, and a stale entry is never read."""


class HolderBits:
    """Allots one bit per holder, lowest free first, so that masks stay narrow.

    A holder that is cleared gets a fresh bit. Its old bit stops counting at once and is given to
    somebody else only after `recycle`, when no mask has it any more.

    Attributes:
        alive: Bits that belong to a holder.
        credited: Alive bits without the suspended ones: where a walk starts.
        retired: Bits that wait to be swept out of the masks.
    """

    def __init__(self) -> None:
        self.alive = 0
        self.credited = 0
        self.retired = 0
        self._bits: dict[Holder, int] = {}
        self._holders: dict[int, Holder] = {}
        self._suspended: set[Holder] = set()
        self._free: list[int] = []
        self._allotted = 0
        self._ghost = 0
        self._decoded: dict[int, tuple[Holder, ...]] = {}

    def __len__(self) -> int:
        return len(self._bits)

    def holders(self) -> tuple[Holder, ...]:
        return tuple(self._bits)

    def bit(self, holder: Holder) -> int:
        """The holder's bit; allots one at first use."""
        bit = self._bits.get(holder)
        return self._allot(holder) if bit is None else bit

    def find(self, holder: Holder) -> int:
        """The holder's bit, 0 if it has none."""
        return self._bits.get(holder, 0)

    def retire(self, holder: Holder) -> None:
        """Make everything said about the holder so far count for nobody."""
        bit = self._bits.pop(holder, 0)
        if bit:
            del self._holders[bit]
            self.alive &= ~bit
            self.credited &= ~bit
            self.retired |= bit
            self._decoded.clear()

    def ghost(self) -> int:
        """A bit that is retired already: it keeps an entry in its table until the next sweep."""
        if not self._ghost & self.retired:
            self._ghost = self._take()
            self.retired |= self._ghost
        return self._ghost

    def sweeping(self) -> int:
        """The retired bits that a sweep that begins now takes out of the masks."""
        self._ghost = 0
        return self.retired

    def recycle(self, mask: int) -> None:
        """Give back retired bits that no mask has any more."""
        self.retired &= ~mask
        for bit in single_bits(mask):
            heapq.heappush(self._free, bit)

    def suspend(self, holder: Holder) -> None:
        """Credit the holder nothing until `resume`, and forget nothing."""
        self._suspended.add(holder)
        self.credited &= ~self.find(holder)

    def resume(self, holder: Holder) -> None:
        self._suspended.discard(holder)
        self.credited |= self.find(holder)

    def decode(self, mask: int) -> tuple[Holder, ...]:
        """The holders in a mask of alive bits."""
        known = self._decoded.get(mask)
        if known is None:
            if len(self._decoded) >= _DECODED_MASKS:
                self._decoded.clear()
            known = tuple(self._holders[bit] for bit in single_bits(mask))
            self._decoded[mask] = known
        return known

    def _allot(self, holder: Holder) -> int:
        bit = self._take()
        self._bits[holder] = bit
        self._holders[bit] = holder
        self.alive |= bit
        if holder not in self._suspended:
            self.credited |= bit
        return bit

    def _take(self) -> int:
        if self._free:
            return heapq.heappop(self._free)
        self._allotted += 1
        return 1 << (self._allotted - 1)


def single_bits(mask: int) -> list[int]:
    """The bits of a mask one by one, lowest first."""
    bits = []
    while mask:
        bit = mask & -mask
        bits.append(bit)
        mask ^= bit
    return bits
