"""Dump: what holders with plain blocks have in a `BlockIndex`, out of it and back into it.

Taking a copy is quick and done at one moment; turning the copy into rows takes long and may be done
elsewhere. Blocks that go together in other ways (several KV cache groups, blocks smaller than the
index's, names that stand for nothing yet, shared storage) are left out: engines tell those again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from indexer.block import Holder
from indexer.holders import single_bits
from indexer.index import BlockIndex


class Rows(msgspec.Struct, frozen=True):
    """Blocks that the same holders have in the same place.

    Attributes:
        tier: Where they lie.
        unit: Blocks of the index per block.
        holders: Who has them, by position in the list of holders.
        names: What they call them, 8 bytes each, little-endian.
        chains: The chain hash of each, likewise.
        copies: Times they have each of them, beyond those of other rows.
    """

    tier: str
    unit: int
    holders: Sequence[int]
    names: bytes
    chains: bytes
    copies: int = 1


class _Share(msgspec.Struct):
    bit: int
    own: dict[int, int]
    repeats: list[tuple[str, int, dict[int, int]]]


class Copy(msgspec.Struct):
    """What the index held at one moment, for `rows`.

    Attributes:
        holders: Whose blocks it has.
    """

    holders: Sequence[Holder]
    shelves: list[tuple[str, int, dict[int, int]]]
    shared: dict[int, int]
    aliased: dict[int, int]
    shares: list[_Share]


def copy(index: BlockIndex, holders: Collection[Holder]) -> Copy:
    """Of what these holders have; those who have nothing are left out."""
    held = {h: index._holdings[h] for h in holders if h in index._holdings}
    return Copy(
        holders=list(held),
        shelves=[(s.tier, s.unit, dict(s.table)) for s in index.shelves if s.group is None],
        shared=dict(index._names.shared),
        aliased=dict(index._names.aliased),
        shares=[
            _Share(
                holding.bit,
                dict(holding.own),
                [(s.tier, s.unit, dict(counts)) for s, counts in holding.repeats.items()],
            )
            for holding in held.values()
        ],
    )


def rows(taken: Copy) -> Iterator[Rows]:
    """All that was copied."""
    positions = {share.bit: position for position, share in enumerate(taken.shares)}
    ours = sum(positions)
    for tier, unit, table in taken.shelves:
        groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for name, chain in taken.shared.items():
            callers = table.get(chain, 0) & ours & ~taken.aliased.get(chain, 0)
            if callers:
                groups[callers].append((name, chain))
        for share in taken.shares:
            for name, chain in share.own.items():
                if table.get(chain, 0) & share.bit:
                    groups[share.bit].append((name, chain))
        for mask, pairs in groups.items():
            holders = [positions[bit] for bit in single_bits(mask)]
            yield _packed(tier, unit, holders, pairs)
    for position, share in enumerate(taken.shares):
        yield from _repeats(taken, position, share)


def load(index: BlockIndex, holders: Mapping[int, Holder], packed: Rows) -> bool:
    """Put rows into an index, for the holders at these positions; False if not all had room."""
    names = np.frombuffer(packed.names, "<u8").tolist()
    chains = np.frombuffer(packed.chains, "<u8").repeat(packed.unit).tolist()
    fits = True
    for position in packed.holders:
        holder = holders.get(position)
        if holder is not None:
            for _ in range(packed.copies):
                fits &= index.store(holder, packed.tier, names, chains) == len(names)
    return fits


def _repeats(taken: Copy, position: int, share: _Share) -> Iterator[Rows]:
    """Copies beyond the first; a second name of a block has brought one of them already."""
    own: dict[int, list[int]] = defaultdict(list)
    for name, chain in share.own.items():
        own[chain].append(name)
    shared = {chain: name for name, chain in taken.shared.items()} if share.repeats else {}
    for tier, unit, counts in share.repeats:
        groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for chain, count in counts.items():
            names = list(own.get(chain, ()))
            if chain in shared and not taken.aliased.get(chain, 0) & share.bit:
                names.append(shared[chain])
            extra = count + 1 - len(names)
            if names and extra > 0:
                groups[extra].append((names[0], chain))
        for extra, pairs in groups.items():
            yield _packed(tier, unit, [position], pairs, extra)


def _packed(
    tier: str, unit: int, holders: list[int], pairs: list[tuple[int, int]], copies: int = 1
) -> Rows:
    names, chains = np.array(pairs, "<u8").T
    return Rows(tier, unit, holders, names.tobytes(), chains.tobytes(), copies)
