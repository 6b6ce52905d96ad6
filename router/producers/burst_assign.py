"""Which endpoint each request of a burst should go to, so that shared prompts are computed once.

Requests with the same prompt are a unit; so is a single one that shares enough first blocks with
another, where that is asked for. Units of several requests are placed first, and longer prompts
before shorter ones: later units find more to share. A unit goes where its first blocks already are
while that endpoint has less than its fair share of the burst, else to the one with least.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from router.producers.burst_parameters import UNLIMITED, BurstPrefixParameters

Names = tuple[int, ...]
"""The blocks of a prompt; equal prompts have equal names."""


class Replica(msgspec.Struct, frozen=True):
    """An endpoint that can be given requests.

    Attributes:
        running: Requests it computes already.
    """

    address: str
    running: float = 0.0


def assign(
    prompts: Sequence[Names], replicas: Sequence[Replica], parameters: BurstPrefixParameters
) -> list[str | None]:
    """An address for each prompt; None for one that shares nothing with another."""
    assigned: list[str | None] = [None] * len(prompts)
    units = _units(prompts, parameters.min_colocate_blocks)
    if not units or not replicas:
        return assigned
    by_requests = parameters.balance_by == "requests"
    total = sum(len(unit.members) if by_requests else len(unit.names) for unit in units)
    layout = _Layout(replicas, parameters, math.ceil(total / len(replicas)))
    for unit in units:
        for member, address in zip(unit.members, layout.place(unit), strict=True):
            assigned[member] = address
    return assigned


class _Unit(msgspec.Struct, frozen=True):
    """Requests with the same prompt: their places in the burst."""

    names: Names
    members: tuple[int, ...]


def _units(prompts: Sequence[Names], min_blocks: int) -> list[_Unit]:
    """What is placed, in the order in which it is."""
    groups: dict[Names, list[int]] = {}
    for i, names in enumerate(prompts):
        if names:
            groups.setdefault(names, []).append(i)
    starts = Counter(
        names[:min_blocks]
        for names, members in groups.items()
        for _ in members
        if len(names) >= min_blocks
    )
    units = [
        _Unit(names, tuple(members))
        for names, members in groups.items()
        if len(members) > 1 or (min_blocks and starts[names[:min_blocks]] > 1)
    ]
    return sorted(units, key=lambda unit: (len(unit.members) == 1, -len(unit.names)))


class _Layout:
    """What each endpoint has been given so far."""

    def __init__(
        self, replicas: Sequence[Replica], parameters: BurstPrefixParameters, fair_share: int
    ) -> None:
        self._replicas = replicas
        self._parameters = parameters
        self._fair_share = fair_share
        self._blocks: Mapping[str, set[int]] = {r.address: set() for r in replicas}
        self._requests: Counter[str] = Counter()
        self._computed: Counter[str] = Counter()

    def place(self, unit: _Unit) -> Iterator[str]:
        """An address for each request of a unit."""
        given: Counter[str] = Counter()
        limit = self._parameters.max_per_replica
        most = len(unit.members) if limit == UNLIMITED else limit
        left = len(unit.members)
        while left:
            address = self._choose(unit, given, most)
            # More requests than all may take together: one at a time from here on.
            run = min(left, max(most - given[address], 1))
            given[address] += run
            self._give(address, unit.names, run)
            left -= run
            yield from [address] * run

    def _choose(self, unit: _Unit, given: Mapping[str, int], most: int) -> str:
        free = [r for r in self._replicas if given[r.address] < most] or self._replicas
        least = self._parameters.min_colocate_blocks
        if least and not given:
            shares = {r: self._shared(r.address, unit.names) for r in free}
            near = [
                replica
                for replica, shared in shares.items()
                if shared >= least and self._load(replica.address) < self._fair_share
            ]
            if near:
                return min(near, key=lambda r: (-shares[r], *self._order(r))).address
        return min(free, key=self._order).address

    def _order(self, replica: Replica) -> tuple[float, int, float, str]:
        address = replica.address
        return self._load(address), self._requests[address], replica.running, address

    def _load(self, address: str) -> int:
        by_requests = self._parameters.balance_by == "requests"
        return (self._requests if by_requests else self._computed)[address]

    def _shared(self, address: str, names: Names) -> int:
        """First blocks of a prompt that the endpoint has been given before."""
        blocks = self._blocks[address]
        return next((i for i, name in enumerate(names) if name not in blocks), len(names))

    def _give(self, address: str, names: Names, requests: int) -> None:
        self._computed[address] += len(names) - self._shared(address, names)
        self._requests[address] += requests
        self._blocks[address].update(names)
