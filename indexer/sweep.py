"""Sweeping: takes retired bits and forgotten names out of the tables, step by step.

Names go first, while the blocks of retired holders are still in the tables: a block that is in a
table gets no second shared name, so there is no moment at which it could have two. A block whose
names are in doubt is kept in a table by a ghost, a bit that belongs to nobody, for the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from indexer.holders import HolderBits
from indexer.holding import Holding, Table
from indexer.names import Names, last_of

Present = Callable[[int], int]
"""Chain hash → mask of its holders over all tiers, retired bits included."""


def sweep_steps(
    tables: Collection[Table],
    names: Names,
    holdings: Collection[Holding],
    bits: HolderBits,
    present: Present,
) -> Iterator[None]:
    """One pass, one entry per step; tables may change between steps."""
    retired = bits.sweeping()
    yield from _sweep_names(names, bits, present)
    for table in tables:
        yield from _sweep_table(table, retired)
    for holding in holdings:
        yield from _sweep_overlay(holding, present)
    for chain in list(names.aliased):
        mask = names.aliased.get(chain, 0) & present(chain) & ~retired
        if mask:
            names.aliased[chain] = mask
        else:
            names.aliased.pop(chain, None)
        yield
    bits.recycle(retired)


def _sweep_names(names: Names, bits: HolderBits, present: Present) -> Iterator[None]:
    for name in list(names.shared):
        block = names.shared.get(name)
        if block is not None and not names.callers(block, present(last_of(block)) & bits.alive):
            del names.shared[name]
        yield


def _sweep_table(table: Table, retired: int) -> Iterator[None]:
    for chain in list(table):
        mask = table.get(chain, 0)
        if mask & retired:
            rest = mask & ~retired
            if rest:
                table[chain] = rest
            else:
                del table[chain]
        yield


def _sweep_overlay(holding: Holding, present: Present) -> Iterator[None]:
    for name in list(holding.own):
        block = holding.own.get(name)
        if block is not None and not present(last_of(block)) & holding.bit:
            del holding.own[name]
        yield
    holding.doubled = {chain for chain in holding.doubled if present(chain) & holding.bit}
