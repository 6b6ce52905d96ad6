"""The endpoints of one pool: written by discovery and scraping, read by requests.

All calls come from one event loop and return at once. Readers get immutable values, cached until
something changes. Listeners are called synchronously, after the change can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from router.pool.endpoint import Endpoint, EngineMetrics, ServedModels
from router.pool.models import ModelNames, ModelTable
from router.pool.serving import Serving

DEAD_AFTER = 3
"""Failed scrapes in a row after which an endpoint that was scraped before is no candidate."""


class Listener(Protocol):
    """Learns of endpoints that come, change and go.

    A call must return at once and must not change the pool. An endpoint that is replaced by
    another one on the same address is first removed, then added.
    """

    def added(self, endpoint: Endpoint) -> None:
        """An endpoint came; also called for those already there when a listener registers."""

    def removed(self, endpoint: Endpoint) -> None:
        """An endpoint is gone; what was known of it is void."""

    def changed(self, endpoint: Endpoint) -> None:
        """Discovery now says something else of the endpoint: labels, rank, host or KV events."""

    def restarted(self, endpoint: Endpoint) -> None:
        """The engine's process is a new one: its cache is empty."""

    def died(self, endpoint: Endpoint) -> None:
        """Its scrapes fail: it is no candidate any more."""

    def revived(self, endpoint: Endpoint) -> None:
        """It answers again."""


class _Member:
    """An endpoint and what must be remembered between its scrapes."""

    __slots__ = ("endpoint", "failures", "process_start")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.failures = 0
        # Kept apart from the metrics: a scrape that lacks the figure must not hide a restart.
        self.process_start: float | None = None


class Pool:
    """The endpoints, by address."""

    def __init__(self, endpoints: Iterable[Endpoint] = ()) -> None:
        self._members: dict[str, _Member] = {}
        self._listeners: list[Listener] = []
        self._snapshot: tuple[Endpoint, ...] | None = None
        self._candidates: tuple[Endpoint, ...] | None = None
        self._models: ModelTable | None = None
        self._serving: Serving | None = None
        self.replace(endpoints)

    def snapshot(self) -> tuple[Endpoint, ...]:
        """All endpoints, in the order of discovery."""
        if self._snapshot is None:
            self._snapshot = tuple(member.endpoint for member in self._members.values())
        return self._snapshot

    def candidates(self) -> tuple[Endpoint, ...]:
        """The endpoints that are alive, in the order of discovery."""
        if self._candidates is None:
            self._candidates = tuple(e for e in self.snapshot() if e.alive)
        return self._candidates

    def serving(self, model: str) -> Sequence[Endpoint]:
        """The candidates that may be asked for a model; all of them where nobody lists it."""
        if self._serving is None:
            self._serving = Serving(self.snapshot())
        return self._serving.narrow(self.candidates(), model)

    def get(self, address: str) -> Endpoint | None:
        """The endpoint at an address, if there is one."""
        member = self._members.get(address)
        return member.endpoint if member is not None else None

    def resolve_model(self, name: str) -> ModelNames:
        """What a model name in a request stands for, by what the endpoints serve."""
        return self.models().resolve(name)

    def models(self) -> ModelTable:
        """The names of all models that the endpoints serve."""
        if self._models is None:
            served = (endpoint.models for endpoint in self.snapshot())
            self._models = ModelTable(models for models in served if models is not None)
        return self._models

    def listen(self, listener: Listener) -> None:
        """Tell a listener of every endpoint there is, and of every change from now on."""
        self._listeners.append(listener)
        for endpoint in self.snapshot():
            listener.added(endpoint)

    def unlisten(self, listener: Listener) -> None:
        """Tell a listener no more. It must have been registered."""
        self._listeners.remove(listener)

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """Take over what discovery found. An endpoint that stays keeps its metrics and models.

        Addresses must be unique. An endpoint stays if its address, namespace and name do.
        """
        old = self._members
        new: dict[str, _Member] = {}
        added, changed = [], []
        for endpoint in endpoints:
            member = old.get(endpoint.address)
            if member is None or not _same(member.endpoint, endpoint):
                member = _Member(endpoint)
                added.append(member)
            elif (merged := _merged(member.endpoint, endpoint)) != member.endpoint:
                member.endpoint = merged
                changed.append(member)
            new[endpoint.address] = member
        removed = [member for address, member in old.items() if new.get(address) is not member]
        self._members = new
        self._forget_views(models=bool(added or removed))
        self._tell(lambda listener, endpoint: listener.removed(endpoint), removed)
        self._tell(lambda listener, endpoint: listener.changed(endpoint), changed)
        self._tell(lambda listener, endpoint: listener.added(endpoint), added)

    def scraped(self, address: str, metrics: EngineMetrics) -> None:
        """A scrape succeeded. Ignored for an address that is no longer in the pool."""
        member = self._members.get(address)
        if member is None:
            return
        member.failures = 0
        before, start = member.process_start, metrics.process_start
        if start is not None:
            member.process_start = start
        was_alive = member.endpoint.alive
        self._update(member, metrics=metrics, alive=True, scrape_fault="")
        if not was_alive:
            self._tell(lambda listener, endpoint: listener.revived(endpoint), [member])
        if None not in (before, start) and before != start:
            self._tell(lambda listener, endpoint: listener.restarted(endpoint), [member])

    def scrape_failed(self, address: str, fault: str = "") -> None:
        """A scrape failed. The last good figures stay, with the time they were taken at."""
        member = self._members.get(address)
        if member is None:
            return
        member.failures += 1
        if fault != member.endpoint.scrape_fault:
            self._update(member, scrape_fault=fault)
        scraped_before = member.endpoint.metrics is not None
        if scraped_before and member.failures >= DEAD_AFTER and member.endpoint.alive:
            self._update(member, alive=False)
            self._tell(lambda listener, endpoint: listener.died(endpoint), [member])

    def attributed(
        self, address: str, attributes: Mapping[str, float], keys: Collection[str]
    ) -> None:
        """An extractor states these, and of its `keys` no others."""
        member = self._members.get(address)
        if member is None:
            return
        kept = {k: v for k, v in member.endpoint.attributes.items() if k not in keys}
        stated = {**kept, **attributes}
        if stated != member.endpoint.attributes:
            self._update(member, attributes=stated)

    def served(self, address: str, models: ServedModels) -> None:
        """An engine said what it serves."""
        member = self._members.get(address)
        if member is not None and member.endpoint.models != models:
            self._update(member, models=models)
            self._models = self._serving = None

    def _update(self, member: _Member, **fields: object) -> None:
        member.endpoint = msgspec.structs.replace(member.endpoint, **fields)
        self._forget_views()

    def _forget_views(self, *, models: bool = False) -> None:
        self._snapshot = None
        self._candidates = None
        if models:
            self._models = self._serving = None

    def _tell(self, call: Callable[[Listener, Endpoint], None], members: Iterable[_Member]) -> None:
        for member in members:
            for listener in tuple(self._listeners):
                call(listener, member.endpoint)


def _same(old: Endpoint, new: Endpoint) -> bool:
    return (old.namespace, old.name) == (new.namespace, new.name)


def _merged(old: Endpoint, new: Endpoint) -> Endpoint:
    """What discovery says now, with what the engine said before."""
    return msgspec.structs.replace(
        new,
        metrics=old.metrics,
        models=old.models,
        attributes=old.attributes,
        alive=old.alive,
        scrape_fault=old.scrape_fault,
    )
