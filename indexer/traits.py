"""Traits: in what some holders differ from one with plain blocks of the index's size.

They are known by holder, and kept as masks while the holder has a bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from indexer.block import Holder
from indexer.groups import Need


class _Trait(msgspec.Struct):
    needs: Sequence[Need] = ()
    headless: bool = False
    grain: int = 1
    shared: bool = False


class Traits:
    """
    Attributes:
        needing: Need of a KV cache group → mask of the holders that have the group.
        headless: Mask of the holders none of whose groups needs all blocks of a prefix.
        grains: Unit in which a holder computes, if more than one block → mask.
        shared: Mask of the holders whose blocks others can read.
    """

    def __init__(self) -> None:
        self.needing: dict[Need, int] = {}
        self.headless = 0
        self.grains: dict[int, int] = {}
        self.shared = 0
        self._traits: dict[Holder, _Trait] = {}

    @property
    def plain(self) -> bool:
        """Whether a walk along the prefix's blocks is all that a match takes."""
        return not (self.needing or self.headless or self.shared)

    def lenders(self) -> list[Holder]:
        """The holders whose blocks others can read."""
        return [holder for holder, trait in self._traits.items() if trait.shared]

    def set_needs(self, holder: Holder, bit: int, needs: Sequence[Need], headless: bool) -> None:
        trait = self._trait(holder)
        trait.needs, trait.headless = needs, headless
        self.admit(holder, bit)

    def set_grain(self, holder: Holder, bit: int, unit: int) -> None:
        self._trait(holder).grain = unit
        self.admit(holder, bit)

    def set_shared(self, holder: Holder, bit: int) -> None:
        self._trait(holder).shared = True
        self.admit(holder, bit)

    def is_shared(self, holder: Holder) -> bool:
        trait = self._traits.get(holder)
        return trait is not None and trait.shared

    def grain(self, holder: Holder) -> int:
        trait = self._traits.get(holder)
        return trait.grain if trait else 1

    def forget(self, holder: Holder) -> None:
        """The holder is another engine from now on, if any; its bit is retired already."""
        self._traits.pop(holder, None)

    def admit(self, holder: Holder, bit: int) -> None:
        """The holder has this bit now."""
        trait = self._traits.get(holder)
        if trait is None or not bit:
            return
        self.retire(bit)
        for need in trait.needs:
            self.needing[need] = self.needing.get(need, 0) | bit
        self.headless |= bit * trait.headless
        self.shared |= bit * trait.shared
        if trait.grain > 1:
            self.grains[trait.grain] = self.grains.get(trait.grain, 0) | bit

    def retire(self, bit: int) -> None:
        """The bit stands for nobody any more."""
        self.needing = {need: rest for need, m in self.needing.items() if (rest := m & ~bit)}
        self.grains = {unit: rest for unit, m in self.grains.items() if (rest := m & ~bit)}
        self.headless &= ~bit
        self.shared &= ~bit

    def _trait(self, holder: Holder) -> _Trait:
        return self._traits.setdefault(holder, _Trait())
