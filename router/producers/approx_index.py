"""What was sent where lately: a block's or an item's name -> endpoints, bounded per endpoint.

Of each endpoint the names used last are kept, as its cache is thought to do. Endpoints are bits of
a mask, so that one number tells all that hold a name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from router.pool.endpoint import Endpoint
from router.scheduling.types import Decision

_Name = TypeVar("_Name", bound=Hashable)

FAILED_STATUS = 400
"""From this status on the engine has not computed the prompt."""


class ApproxIndex(Generic[_Name]):
    """Remembers what was sent where. A listener of the pool: what goes or restarts is forgotten."""

    def __init__(self) -> None:
        self._holders: dict[_Name, int] = {}
        self._caches: dict[str, _Cache[_Name]] = {}

    def __len__(self) -> int:
        """Names kept, each once."""
        return len(self._holders)

    def kept(self, address: str) -> int:
        """Names kept of an endpoint."""
        cache = self._caches.get(address)
        return len(cache.uses) if cache is not None else 0

    def holders(self, name: _Name) -> Iterator[str]:
        """The endpoints that have it."""
        mask = self._holders.get(name, 0)
        return (address for address, cache in self._caches.items() if mask & cache.bit)

    def reach(self, names: Sequence[_Name]) -> Mapping[str, int]:
        """Endpoint -> how many of the first names it has without a gap; absent means none."""
        depths = list(self._depths(names))
        return {
            address: depth
            for address, cache in self._caches.items()
            for mask, depth in depths
            if mask & cache.bit
        }

    def sent(self, address: str, names: Sequence[_Name], capacity: int) -> None:
        """An endpoint was sent these; of its names the `capacity` used last are kept.

        The first of a sequence counts as used last: without it the rest is worth nothing.
        """
        cache = self._caches.get(address)
        if cache is None:
            cache = self._caches[address] = _Cache(self._free_bit())
        uses = cache.uses
        for name in reversed(names):
            uses[name] = uses.get(name, 0) + 1
            uses.move_to_end(name)
            self._holders[name] = self._holders.get(name, 0) | cache.bit
        while len(uses) > capacity:
            name, _ = uses.popitem(last=False)
            self._forget(name, cache.bit)

    def failed(self, address: str, names: Sequence[_Name]) -> None:
        """It did not compute these: what no other request sent it is forgotten."""
        cache = self._caches.get(address)
        if cache is None:
            return
        for name in names:
            left = cache.uses.get(name, 0) - 1
            if left > 0:
                cache.uses[name] = left
            elif left == 0:
                del cache.uses[name]
                self._forget(name, cache.bit)

    def added(self, endpoint: Endpoint) -> None:
        """Nothing was sent to it yet."""

    def changed(self, endpoint: Endpoint) -> None:
        """Its cache is what it was."""

    def removed(self, endpoint: Endpoint) -> None:
        """Its cache is gone."""
        cache = self._caches.pop(endpoint.address, None)
        if cache is not None:
            for name in cache.uses:
                self._forget(name, cache.bit)

    def restarted(self, endpoint: Endpoint) -> None:
        """Its cache is empty."""
        self.removed(endpoint)

    def died(self, endpoint: Endpoint) -> None:
        """What it holds shows when it is back."""

    def revived(self, endpoint: Endpoint) -> None:
        """The same process holds what it held; a new one shows as a restart."""

    def _depths(self, names: Sequence[_Name]) -> Iterator[tuple[int, int]]:
        """Masks of endpoints, each with how many of the first names they have."""
        holding = -1  # everybody
        for depth, name in enumerate(names):
            still = holding & self._holders.get(name, 0)
            if depth and still != holding:
                yield holding & ~still, depth
            holding = still
            if not holding:
                return
        if names:
            yield holding, len(names)

    def _forget(self, name: _Name, bit: int) -> None:
        left = self._holders[name] & ~bit
        if left:
            self._holders[name] = left
        else:
            del self._holders[name]

    def _free_bit(self) -> int:
        taken = 0
        for cache in self._caches.values():
            taken |= cache.bit
        return ~taken & (taken + 1)


class _Cache(Generic[_Name]):
    """One endpoint's bit, and its names, the one used last at the end, with how often each was
    sent."""

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.uses: OrderedDict[_Name, int] = OrderedDict()


class Sent(Generic[_Name]):
    """The lease of a request: what it was sent with is remembered until it fails."""

    def __init__(
        self, index: ApproxIndex[_Name], decision: Decision, names: Sequence[_Name]
    ) -> None:
        self._index = index
        self._names = names
        self._first_pick = decision.endpoint.address
        self._prefill = decision.holders[-1].address
        self._capacities: dict[str, int] = {}
        self._answered = False

    def sent(self, address: str, capacity: int) -> None:
        """An endpoint computes the names, and keeps `capacity` of all it was sent."""
        self._capacities[address] = capacity
        self._index.sent(address, self._names, capacity)

    def served_by(self, address: str) -> None:
        capacity = self._capacities.pop(self._first_pick, None)
        if capacity is not None:
            self._index.failed(self._first_pick, self._names)
            self.sent(address, capacity)

    def prefill_failed(self) -> None:
        """Whoever was to compute the names elsewhere has not."""
        if self._prefill != self._first_pick and self._prefill in self._capacities:
            del self._capacities[self._prefill]
            self._index.failed(self._prefill, self._names)

    def responded(self, status: int) -> None:
        self._answered = True
        if status >= FAILED_STATUS:
            self._take_back()

    def ended(self) -> None:
        if not self._answered:
            self._take_back()

    def _take_back(self) -> None:
        for address in self._capacities:
            self._index.failed(address, self._names)
