"""Registry: which engines and pools registered, what to read of them and who keeps whose blocks."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from urllib.parse import urlsplit

import msgspec

from indexer.block import GPU, Holder
from indexer.conductor.wire import (
    DEFAULT_BACKEND,
    DEFAULT_BLOCK_SIZE,
    Events,
    Malformed,
    Register,
)
from indexer.events import PoolTold
from indexer.feed import Source
from indexer.media import LOWER, TIERS, tier_of
from indexer.pooling import Pooling

_ADDRESS = re.compile(r"tcp://[^\s*/]+:[0-9]{1,5}|ipc://\S+")
_MAX_PORT = 65535

MAX_REGISTRATIONS = 10_000
"""Posting events counts as one, too, so their number needs a bound."""

REGISTERED = "conductor:"
"""How the holders of registrations begin."""

_CENTRAL = ("mooncake", "memcache")
"""Backends of which one service tells of the memory of all nodes."""
_PER_NODE = "yuanrong"


class Outcome(enum.Enum):
    """What became of a registration."""

    ADDED = enum.auto()
    REPLACED = enum.auto()
    """There was another one in its place; what was heard of it is worth nothing now."""
    DUPLICATE = enum.auto()


class Key(msgspec.Struct, frozen=True, order=True):
    """What makes a registration the same one."""

    tenant: str
    instance: str
    rank: int

    @property
    def holder(self) -> Holder:
        return Holder(f"{REGISTERED}{self.tenant}/{self.instance}", self.rank)


class Registration(msgspec.Struct, frozen=True):
    """An engine's rank or a pool.

    Attributes:
        backend: The pool its blocks go to, or the pool it is: mooncake, memcache or yuanrong.
        engine: Kind of engine, as told.
        addresses: Tier → ZMQ address of its events; none for those who post them.
        told: Medium → address, as told.
        is_pool: It tells of the memory of nodes and not of one engine.
        is_told: It registered; else it only posted events.
    """

    key: Key
    model: str
    block_size: int
    backend: str
    engine: str
    addresses: Mapping[str, str]
    told: Mapping[str, str]
    replay: str | None
    is_pool: bool
    is_told: bool = True

    @property
    def holder(self) -> Holder:
        return self.key.holder

    @property
    def node(self) -> str | None:
        """Host of its events."""
        address = self.addresses.get(GPU) or next(iter(self.addresses.values()), None)
        return host_of(address) if address else None

    def sources(self) -> Iterator[Source]:
        """Its event streams, one for each address."""
        tiers: dict[str, list[str]] = {}
        for tier in TIERS:
            if tier in self.addresses:
                tiers.setdefault(self.addresses[tier], []).append(tier)
        for address, told in tiers.items():
            # An engine that publishes everything at one address tells each block's medium itself.
            own = GPU in told and not self.is_pool
            yield Source(
                self.holder,
                address,
                base_model=self.model,
                replay=self.replay if own or self.is_pool else None,
                tiers=() if own else tuple(tier for tier in told if tier in LOWER),
                fixed_model=True,
            )


class Registry:
    """All registrations; it opens nothing itself."""

    def __init__(self) -> None:
        self._known: dict[Key, Registration] = {}

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._known.values())

    def get(self, key: Key) -> Registration | None:
        return self._known.get(key)

    def of(self, tenant: str, instance: str) -> Registration | None:
        """Some registration of an instance."""
        found = (r for r in self if (r.key.tenant, r.key.instance) == (tenant, instance))
        return next(found, None)

    def tenant_of(self, instance: str) -> str | None:
        """The tenant of the first registration of an instance."""
        return next((r.key.tenant for r in self if r.key.instance == instance), None)

    def add(self, new: Registration) -> Outcome:
        """Raises Malformed where there is no room."""
        old = self._known.get(new.key)
        if old == new:
            return Outcome.DUPLICATE
        if old is None and len(self._known) >= MAX_REGISTRATIONS:
            raise Malformed(f"{MAX_REGISTRATIONS} are registered already")
        self._known[new.key] = new
        if old is None or (not old.is_told and old.model == new.model):
            return Outcome.ADDED
        return Outcome.REPLACED

    def remove(self, key: Key) -> Registration | None:
        return self._known.pop(key, None)

    def knows(self, tenant: str, model: str) -> bool:
        return any(r.key.tenant == tenant and r.model == model for r in self)

    def asked(self, tenant: str, model: str, block_size: int) -> Iterator[Registration]:
        """Those whose blocks answer a query."""
        for registration in self:
            key = registration.key
            if (key.tenant, registration.model, registration.block_size) == (
                tenant,
                model,
                block_size,
            ):
                yield registration

    def arrange(self, pooling: Pooling, block_size: int) -> None:
        """Tell an index who keeps whose blocks."""
        here = [r for r in self if r.block_size == block_size]
        pools = [r for r in here if r.is_pool]
        pooling.members.update({p.holder: partial(self._members, p) for p in pools})
        for engine in here:
            if not engine.is_pool:
                pooling.models[engine.holder] = engine.model
                tiers = _told_elsewhere(engine, pools)
                if tiers:
                    pooling.elsewhere[engine.holder] = tiers
                else:
                    pooling.elsewhere.pop(engine.holder, None)

    def _members(self, pool: Registration, told: PoolTold) -> Sequence[Holder]:
        """The engines' ranks on the node that an event names; a node's own pool may name none."""
        tenant = told.tenant or pool.key.tenant
        engines = [r for r in self if not r.is_pool and _gives_to(r, pool, tenant)]
        nodes = [node_of(told.node)]
        if pool.backend not in _CENTRAL:
            nodes.append(pool.node)
        for node in nodes:
            found = [r for r in engines if node is not None and r.node == node]
            if found:
                exact = [r.holder for r in found if r.key.rank == told.rank]
                return exact or [r.holder for r in found]
        return ()


def registration(request: Register) -> Registration:
    """Raises Malformed."""
    told = {medium: address for medium, address in request.medium_endpoints.items() if address}
    backend = request.store_backend.strip().lower()
    backend = backend if backend in _CENTRAL else _PER_NODE
    alone = request.endpoint if not told and request.endpoint else None
    if alone is not None:
        is_pool = backend in _CENTRAL
        told = {"endpoint": alone}
        addresses = dict.fromkeys(LOWER if is_pool else TIERS, alone)
    else:
        addresses = _addresses(told)
        is_pool = bool(addresses) and GPU not in addresses
    for address in (*addresses.values(), request.replay_endpoint):
        if address:
            _check(address)
    return Registration(
        key=Key(request.tenant_id, request.instance_id, request.dp_rank),
        model=request.modelname,
        block_size=request.block_size,
        backend=backend,
        engine=request.type,
        addresses=addresses,
        told=told,
        replay=request.replay_endpoint or None,
        is_pool=is_pool,
    )


def posting(key: Key, posted: Events, like: Registration | None) -> Registration:
    """What stands for a rank that posts events and never registered; `like` is another rank."""
    return Registration(
        key=key,
        model=posted.model_name or (like.model if like else ""),
        block_size=posted.block_size or (like.block_size if like else DEFAULT_BLOCK_SIZE),
        backend=like.backend if like else DEFAULT_BACKEND.lower(),
        engine=like.engine if like else "",
        addresses={},
        told={},
        replay=None,
        is_pool=False,
        is_told=False,
    )


def host_of(address: str) -> str:
    """The host of a ZMQ address, in one spelling."""
    return _normal(urlsplit(address).hostname or "")


def node_of(told: str | None) -> str | None:
    """The host of what an event names: a host, or a host and a port."""
    if not told:
        return None
    try:
        return _normal(str(ipaddress.ip_address(told)))
    except ValueError:
        return _normal(urlsplit(f"//{told}").hostname or told)


def _addresses(told: Mapping[str, str]) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for medium, address in told.items():
        tier = tier_of(medium)
        if not medium or tier not in TIERS:
            raise Malformed(f"unknown medium {medium!r}; known: npu, cpu, disk and their synonyms")
        if tier in addresses:
            raise Malformed(f"medium {medium!r} stands twice")
        addresses[tier] = address
    return addresses


def _check(address: str) -> None:
    if not _ADDRESS.fullmatch(address):
        raise Malformed(f"{address!r} is no address to connect to, such as tcp://10.0.0.1:5557")
    port = address.rpartition(":")[2]
    if address.startswith("tcp:") and not 1 <= int(port) <= _MAX_PORT:
        raise Malformed(f"{port} is no port - in {address!r}")


def _told_elsewhere(engine: Registration, pools: Sequence[Registration]) -> frozenset[str]:
    """The lower tiers on which an engine's own stream does not have the last word."""
    own = engine.addresses.get(GPU)
    tiers = {t for t in LOWER if t in engine.addresses and engine.addresses[t] != own}
    for pool in pools:
        if _gives_to(engine, pool, pool.key.tenant) and (
            pool.backend in _CENTRAL or pool.node == engine.node
        ):
            tiers.update(pool.addresses)
    return frozenset(tiers)


def _gives_to(engine: Registration, pool: Registration, tenant: str) -> bool:
    same = engine.key.tenant == tenant and engine.block_size == pool.block_size
    return same and engine.backend == pool.backend


def _normal(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()
