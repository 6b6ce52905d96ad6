"""Pools: which engines have what a pool keeps, told by names whose content engines told elsewhere.

Engines say what they give a pool, with tokens; the pool says, by name, what it keeps and on which
node. Neither order of the two is sure, so names wait for their content (`Pooling._waiting`), and
content is remembered for names (`Pooling._lessons`). Where somebody else has the last word on a
tier, an engine's word on it only teaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from indexer.block import GPU, Holder
from indexer.claims import Place
from indexer.events import BlockRemoved, BlockStored, Change, Event, PoolTold, Reason
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.media import LOWER
from indexer.speculative import Speculative

MAX_LESSONS = 1 << 18
"""Names whose content is remembered though no engine has the block: some 40 MB."""
MAX_WAITING = 1 << 18
"""Names that wait for their content."""

Members = Callable[[PoolTold], Sequence[Holder]]
"""Whose blocks a pool tells of."""

_NOWHERE: frozenset[str] = frozenset()


class Pooling:
    """
    Attributes:
        members: Of each pool, whose blocks it tells of.
        elsewhere: Of each engine, the tiers on which somebody else has the last word.
        doubted: Pools that cannot be heard at the moment.
    """

    def __init__(self, index: BlockIndex) -> None:
        self.members: dict[Holder, Members] = {}
        self.elsewhere: dict[Holder, frozenset[str]] = {}
        self.doubted: set[Holder] = set()
        self._index = index
        self._lessons: dict[int, tuple[int, int]] = {}
        """Name → chain hash and blocks of the index in one of the engine's."""
        self._waiting: dict[int, set[tuple[Holder, Holder, str]]] = {}
        """Name → pool, engine and tier for which it waits."""
        self._told: dict[Holder, set[tuple[Holder, str]]] = {}
        """Pool → engines and tiers it told of."""

    @property
    def teaches(self) -> bool:
        """Whether names may be asked for whose blocks engines gave up."""
        return bool(self.members or self.elsewhere)

    def chain(self, name: int) -> int | None:
        """The chain hash that a name stands for, if anybody told."""
        lesson = self._lessons.get(name)
        return self._index.named(name) if lesson is None else lesson[0]

    def teach(self, names: Sequence[int], chains: Sequence[int]) -> None:
        """Remember what names stand for, `len(chains) / len(names)` blocks each."""
        unit = len(chains) // len(names)
        for name, chain in zip(names, chains[unit - 1 :: unit], strict=True):
            self._learn(name, chain, unit)
        self.settle(names)

    def keep(self, holder: Holder, names: Iterable[int]) -> None:
        """Remember the names of blocks that an engine is about to give up."""
        for name in names:
            chain = self._index.resolve(holder, name)
            if chain is not None:
                self._learn(name, chain, self._index.traits.grain(holder))

    def settle(self, names: Iterable[int]) -> None:
        """The content of these names is told: place what waited for it."""
        if not self._waiting:
            return
        for name in names:
            for pool, holder, tier in self._waiting.pop(name, ()):
                self._store(pool, holder, tier, name)

    def apply(self, told: PoolTold, pool: Holder, members: Sequence[Holder]) -> Counter[Reason]:
        """Take in what a pool says of these engines; returns what was left out, and why."""
        rejected: Counter[Reason] = Counter()
        targets = [(holder, tier) for tier in _tiers(told) for holder in members]
        match told.change:
            case Change.STORED:
                for name in told.names:
                    for holder, tier in targets:
                        reason = self._store(pool, holder, tier, name)
                        if reason is not None:
                            rejected[reason] += 1
            case Change.REMOVED:
                for holder, tier in targets:
                    self._unwait(holder, tier, told.names)
                    self._index.remove(holder, tier, told.names)
            case Change.CLEARED:
                for holder, tier in targets:
                    self._unwait(holder, tier, list(self._waiting))
                    self._index.clear_tier(holder, tier)
        return rejected

    def drop(self, pool: Holder) -> None:
        """Forget what a pool told."""
        for holder, tier in self._told.pop(pool, ()):
            self._unwait(holder, tier, list(self._waiting))
            self._index.clear_tier(holder, tier)

    def forget(self, holder: Holder) -> None:
        """An engine, or a pool, is gone."""
        self.drop(holder)
        self.doubted.discard(holder)
        for tier in LOWER:
            self._unwait(holder, tier, list(self._waiting))

    def doubted_mask(self) -> int:
        """Bits of the engines whose lower tiers nobody vouches for at the moment."""
        mask = 0
        for pool in self.doubted:
            for holder, _ in self._told.get(pool, ()):
                mask |= self._index.bits.find(holder)
        return mask

    def _learn(self, name: int, chain: int, unit: int) -> None:
        self._lessons.pop(name, None)
        self._lessons[name] = chain, unit
        if len(self._lessons) > MAX_LESSONS:
            del self._lessons[next(iter(self._lessons))]

    def _store(self, pool: Holder, holder: Holder, tier: str, name: int) -> Reason | None:
        self._told.setdefault(pool, set()).add((holder, tier))
        chain = self.chain(name)
        if chain is None:
            self._waiting.setdefault(name, set()).add((pool, holder, tier))
            if len(self._waiting) <= MAX_WAITING:
                return None
            del self._waiting[next(iter(self._waiting))]
            return Reason.UNKNOWN_LOCATION
        bit = self._index.bits.find(holder)
        if any(shelf.table.get(chain, 0) & bit for shelf in self._index.shelves.find(tier)):
            return None  # pools tell of a block again, and it is there once all the same
        if not self._index.has_room(holder):
            return Reason.OVER_BUDGET
        unit = self._lessons[name][1] if name in self._lessons else 0
        self._index.put(holder, Place(tier, unit, None), name, chain)
        return None

    def _unwait(self, holder: Holder, tier: str, names: Iterable[int]) -> None:
        if not self._waiting:
            return
        for name in names:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting -= {entry for entry in waiting if entry[1:] == (holder, tier)}
                if not waiting:
                    del self._waiting[name]


def _tiers(told: PoolTold) -> Sequence[str]:
    return [told.tier] if told.tier else LOWER


class PooledLedger(Ledger):
    """The ledger of an engine that may give its blocks to a pool."""

    def __init__(
        self,
        holder: Holder,
        index: BlockIndex,
        guesses: Speculative,
        storage: Callable[[str], Ledger] | None,
        pooling: Pooling,
    ) -> None:
        super().__init__(holder, index, guesses, storage)
        self._pooling = pooling

    def apply(self, event: Event, model: str) -> None:
        if isinstance(event, PoolTold):
            self.rejected.update(self._pooling.apply(event, self.holder, self._members(event)))
        else:
            super().apply(event, model)

    def _members(self, told: PoolTold) -> Sequence[Holder]:
        return (self.holder,)

    def _is_elsewhere(self, event: BlockStored | BlockRemoved) -> bool:
        tiers = self._pooling.elsewhere.get(self.holder, _NOWHERE)
        return event.tier in tiers and not event.settled

    def _known(self, name: int) -> int | None:
        chain = super()._known(name)
        return self._pooling.chain(name) if chain is None and self._pooling.teaches else chain

    def _located(self, event: BlockStored) -> None:
        if not self._is_elsewhere(event):
            super()._located(event)

    def _hold(self, event: BlockStored, chains: Sequence[int]) -> int:
        if self._is_elsewhere(event):
            self._pooling.teach(event.names, chains)
            return len(event.names)
        taken = super()._hold(event, chains)
        self._pooling.settle(event.names)
        return taken

    def _removed(self, event: BlockRemoved) -> None:
        if not self._is_elsewhere(event):
            super()._removed(event)

    def _take_away(self, event: BlockRemoved, names: Sequence[int]) -> None:
        if self._pooling.teaches:
            self._pooling.keep(self.holder, names)
        super()._take_away(event, names)

    def _cleared(self, tier: str | None) -> None:
        """What an engine clears is its own; what it gave away stays."""
        if tier is None and self.holder in self._pooling.elsewhere:
            tier = GPU
        super()._cleared(tier)

    def _clear(self) -> None:
        super()._clear()
        self._pooling.forget(self.holder)


class PoolLedger(PooledLedger):
    """The ledger of a pool: what it says is about the engines on the nodes that it names."""

    def suspend(self, cause: object) -> None:
        super().suspend(cause)
        self._pooling.doubted.add(self.holder)

    def resume(self, cause: object) -> None:
        super().resume(cause)
        if not self._suspended:
            self._pooling.doubted.discard(self.holder)

    def _members(self, told: PoolTold) -> Sequence[Holder]:
        members = self._pooling.members.get(self.holder)
        found = members(told) if members else ()
        if not found:
            self.rejected[Reason.UNKNOWN_ENDPOINT] += 1
        return found
