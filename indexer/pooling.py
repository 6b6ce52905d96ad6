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
"""Names of a model whose content is remembered though no engine has the block: some 40 MB."""
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
        models: Of each engine, the model it serves, as far as that is known: engines of different
            models may have one name for the same tokens.
        doubted: Pools that cannot be heard at the moment.
    """

    def __init__(self, index: BlockIndex) -> None:
        self.members: dict[Holder, Members] = {}
        self.elsewhere: dict[Holder, frozenset[str]] = {}
        self.models: dict[Holder, str] = {}
        self.doubted: set[Holder] = set()
        self._index = index
        self._lessons: dict[str, dict[int, tuple[int, int]]] = {}
        """Model → name → chain hash, and blocks of the index in one of the engine's."""
        self._waiting: dict[int, set[tuple[Holder, Holder, str]]] = {}
        """Name → pool, engine and tier for which it waits."""
        self._told: dict[Holder, set[tuple[Holder, str]]] = {}
        """Pool → engines and tiers it told of."""

    @property
    def teaches(self) -> bool:
        """Whether names may be asked for whose blocks engines gave up."""
        return bool(self.members or self.elsewhere)

    def lesson(self, holder: Holder, name: int) -> tuple[int, int] | None:
        """The chain hash that a name stands for among engines of the holder's model, and its unit.

        A unit of 0 is that of the block as others have it.
        """
        model = self._model_of(holder)
        if model is None:
            return None
        lesson = self._lessons.get(model, {}).get(name)
        if lesson is not None:
            return lesson
        for other, served in self.models.items():
            if served == model:
                chain = self._index.resolve(other, name)
                if chain is not None:
                    return chain, 0
        return None

    def teach(self, model: str, names: Sequence[int], chains: Sequence[int]) -> None:
        """Remember what names stand for, `len(chains) / len(names)` blocks each."""
        unit = len(chains) // len(names)
        for name, chain in zip(names, chains[unit - 1 :: unit], strict=True):
            self._learn(model, name, chain, unit)
        self.settle(names)

    def keep(self, holder: Holder, names: Iterable[int]) -> None:
        """Remember the names of blocks that an engine is about to give up."""
        model = self.models.get(holder)
        for name in names:
            chain = self._index.resolve(holder, name)
            if chain is not None and model is not None:
                self._learn(model, name, chain, self._index.traits.grain(holder))

    def settle(self, names: Iterable[int]) -> None:
        """The content of these names is told: place what waited for it."""
        if not self._waiting:
            return
        for name in names:
            # Those of another model go on waiting.
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
        self.models.pop(holder, None)
        for tier in LOWER:
            self._unwait(holder, tier, list(self._waiting))

    def doubted_mask(self) -> int:
        """Bits of the engines whose lower tiers nobody vouches for at the moment."""
        mask = 0
        for pool in self.doubted:
            for holder, _ in self._told.get(pool, ()):
                mask |= self._index.bits.find(holder)
        return mask

    def _model_of(self, holder: Holder) -> str | None:
        """Of an engine that was not heard yet, the only one there is."""
        model = self.models.get(holder)
        if model is not None:
            return model
        known = {*self._lessons, *self.models.values()}
        return known.pop() if len(known) == 1 else None

    def _learn(self, model: str, name: int, chain: int, unit: int) -> None:
        lessons = self._lessons.setdefault(model, {})
        lessons.pop(name, None)
        lessons[name] = chain, unit
        if len(lessons) > MAX_LESSONS:
            del lessons[next(iter(lessons))]

    def _store(self, pool: Holder, holder: Holder, tier: str, name: int) -> Reason | None:
        self._told.setdefault(pool, set()).add((holder, tier))
        lesson = self.lesson(holder, name)
        if lesson is None:
            self._waiting.setdefault(name, set()).add((pool, holder, tier))
            if len(self._waiting) <= MAX_WAITING:
                return None
            del self._waiting[next(iter(self._waiting))]
            return Reason.UNKNOWN_LOCATION
        chain, unit = lesson
        bit = self._index.bits.find(holder)
        if any(shelf.table.get(chain, 0) & bit for shelf in self._index.shelves.find(tier)):
            return None  # pools tell of a block again, and it is there once all the same
        if not self._index.has_room(holder):
            return Reason.OVER_BUDGET
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
            self._pooling.models[self.holder] = model
            super().apply(event, model)

    def _members(self, told: PoolTold) -> Sequence[Holder]:
        return (self.holder,)

    def _is_elsewhere(self, event: BlockStored | BlockRemoved) -> bool:
        tiers = self._pooling.elsewhere.get(self.holder, _NOWHERE)
        return event.tier in tiers and not event.settled

    def _known(self, name: int) -> int | None:
        chain = super()._known(name)
        if chain is None and self._pooling.teaches:
            lesson = self._pooling.lesson(self.holder, name)
            chain = lesson[0] if lesson else None
        return chain

    def _located(self, event: BlockStored) -> None:
        if not self._is_elsewhere(event):
            super()._located(event)

    def _store(self, event: BlockStored, parent: int | None) -> None:
        # Of a part of a block there is nothing to learn: the pool's word is for whole ones.
        if event.block_size >= self._index.block_size or not self._is_elsewhere(event):
            super()._store(event, parent)

    def _hold(self, event: BlockStored, chains: Sequence[int]) -> int:
        if self._is_elsewhere(event):
            self._pooling.teach(self._pooling.models[self.holder], event.names, chains)
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
