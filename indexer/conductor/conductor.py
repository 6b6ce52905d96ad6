"""Conductor: registrations, events and questions over one or several indexes, without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from indexer.block import Holder, Identity
from indexer.conductor import told
from indexer.conductor.coverage import Counts, coverage
from indexer.conductor.fleet import Fleet
from indexer.conductor.registry import Key, Outcome, Registration, Registry, posting, registration
from indexer.conductor.wire import (
    DEFAULT_TENANT,
    Answer,
    Covered,
    Events,
    Instance,
    Malformed,
    Query,
    QueryByHash,
    Register,
    Unregister,
)
from indexer.engines.hash_field import number
from indexer.feed import Source
from indexer.hashing import block_hashes, chain_hashes, pack, root
from indexer.prefix_index import PrefixIndex

MAX_BLOCK_SIZES = 16
"""Each has an index of its own."""


class NotFound(LookupError):
    """No such registration, or no index for a model and tenant."""


class Duplicate(ValueError):
    """The same registration stands already."""


class BadEvent(Malformed):
    """An event that cannot be taken in.

    Attributes:
        applied: Events before it, which were.
    """

    def __init__(self, message: str, applied: int) -> None:
        super().__init__(message)
        self.applied = applied


class Conductor:
    """
    Args:
        new_index: Makes an index for blocks of a size, with pools.
        index: One that is there already.

    Attributes:
        fleet: Whose blocks that one knows of beside those of registrations.
        registry: Who registered.
        indexes: Tokens per block → index.
    """

    def __init__(
        self,
        new_index: Callable[[int], PrefixIndex],
        index: PrefixIndex | None = None,
        fleet: Fleet | None = None,
    ) -> None:
        self.registry = Registry()
        self.indexes: dict[int, PrefixIndex] = {} if index is None else {index.block_size: index}
        self._new_index = new_index
        self._first = index
        self.fleet = fleet

    # -- registrations --------------------------------------------------------------------------

    def register(self, request: Register) -> None:
        """Raises Malformed or Duplicate."""
        self.add(registration(request))

    def add(self, new: Registration) -> None:
        """Raises Malformed or Duplicate."""
        if new.block_size not in self.indexes and len(self.indexes) >= MAX_BLOCK_SIZES:
            raise Malformed(f"block_size: {MAX_BLOCK_SIZES} others are in use")
        old = self.registry.get(new.key)
        outcome = self.registry.add(new)
        if outcome is Outcome.DUPLICATE:
            raise Duplicate(f"{new.key.instance} rank {new.key.rank} is registered already")
        if old is not None and outcome is Outcome.REPLACED:
            self._forget(old)
        self._arrange(new)

    def unregister(self, request: Unregister) -> None:
        """Raises NotFound."""
        key = Key(request.tenant_id, request.instance_id, request.dp_rank)
        old = self.registry.remove(key)
        if old is None:
            raise NotFound(f"{key.instance} rank {key.rank} is not registered")
        self._forget(old)
        self._arrange(old)

    def sources(self, block_size: int) -> Iterator[Source]:
        """Event streams to read for an index."""
        for each in self.registry:
            if each.block_size == block_size:
                yield from each.sources()

    # -- events ---------------------------------------------------------------------------------

    def events(self, posted: Events) -> int:
        """Apply events; returns their number. Raises NotFound or BadEvent."""
        tenant = posted.tenant_id or self.registry.tenant_of(posted.instance_id) or DEFAULT_TENANT
        some = self.registry.of(tenant, posted.instance_id)
        if some is None and posted.model_name is None:
            raise NotFound(f"{posted.instance_id} is not registered, and no model_name is told")
        applied = 0
        for event in posted.events:
            try:
                self._apply(posted, Key(tenant, posted.instance_id, told.rank_of(event)), event)
            except Malformed as error:
                raise BadEvent(f"events[{applied}]: {error}", applied) from error
            applied += 1
        if posted.shutdown:
            for each in list(self.registry):
                if (each.key.tenant, each.key.instance) == (tenant, posted.instance_id):
                    self.indexes[each.block_size].drop(each.holder)
        return applied

    def _apply(self, posted: Events, key: Key, event: Mapping[str, Any]) -> None:
        speaker = self._speaker(posted, key)
        index = self.indexes[speaker.block_size]
        for each in told.events_of(event, index.block_size):
            index.ledger(key.holder).apply(each, speaker.model)

    def _speaker(self, posted: Events, key: Key) -> Registration:
        """The registration that events are of; one is made up for a rank that never registered.

        Raises Malformed.
        """
        found = self.registry.get(key)
        if found is None:
            found = posting(key, posted, self.registry.of(key.tenant, key.instance))
            self.add(found)
        if posted.model_name not in (None, found.model):
            raise Malformed(f"{key.instance} is registered for the model {found.model}")
        return found

    # -- questions ------------------------------------------------------------------------------

    def query(self, asked: Query) -> Answer:
        """Who holds how much of a prompt. Raises NotFound or Malformed."""
        try:
            tokens = pack(asked.token_ids)
        except OverflowError as error:
            raise Malformed("token_ids: expected numbers from 0 to 4294967295") from error

        def hashes(identity: Identity) -> Sequence[int]:
            return block_hashes(tokens, asked.block_size, root(identity))

        return self._answer(asked.tenant_id, asked.model, asked.block_size, hashes)

    def query_by_hash(self, asked: QueryByHash) -> Answer:
        """The same for content hashes. Raises NotFound or Malformed."""
        try:
            contents = [number(value) for value in asked.block_hashes]
        except ValueError as error:
            raise Malformed(f"block_hashes: {error}") from error

        def hashes(identity: Identity) -> Sequence[int]:
            return chain_hashes(contents, root(identity))

        return self._answer(asked.tenant_id, asked.model, asked.block_size, hashes)

    def _answer(
        self,
        tenant: str,
        model: str,
        block_size: int,
        hashes: Callable[[Identity], Sequence[int]],
    ) -> Answer:
        fleet = self.fleet.known(tenant, model) if self.fleet else None
        if fleet is None and not self.registry.knows(tenant, model):
            raise NotFound(f"no index for model={model} tenant={tenant}")
        names = {
            each.holder: (each.key.instance, each.key.rank)
            for each in self.registry.asked(tenant, model, block_size)
        }
        identities = [Identity(model)]
        if fleet is not None and self._first is not None and self._first.block_size == block_size:
            names.update(fleet.names)
            identities = list(dict.fromkeys((*identities, *fleet.identities)))
        index = self.indexes.get(block_size)
        found: dict[Holder, Counts] = {}
        if index is not None and names:
            among = sum(index.blocks.bits.find(holder) for holder in names)
            for identity in identities:
                for holder, counts in coverage(index, hashes(identity), among).items():
                    found[holder] = max(counts, found.get(holder, counts), key=sum)
        return {tenant: _instances(found, names, block_size)}

    # -- inside ---------------------------------------------------------------------------------

    def _arrange(self, changed: Registration) -> None:
        size = changed.block_size
        if size not in self.indexes:
            self.indexes[size] = self._new_index(size)
        pooling = self.indexes[size].pooling
        if pooling is not None:
            self.registry.arrange(pooling, size)

    def _forget(self, old: Registration) -> None:
        index = self.indexes[old.block_size]
        index.drop(old.holder)
        if index.pooling is not None:
            index.pooling.members.pop(old.holder, None)
            index.pooling.elsewhere.pop(old.holder, None)


def _instances(
    found: Mapping[Holder, Counts], names: Mapping[Holder, tuple[str, int]], block_size: int
) -> Mapping[str, Instance]:
    instances: dict[str, Instance] = {}
    for holder, counts in found.items():
        name, rank = names[holder]
        tokens = sum(counts) * block_size
        instance = instances.setdefault(name, Instance(0, {}))
        instance.ranks[str(rank)] = Covered(tokens, *counts)
        instance.longest_matched = max(instance.longest_matched, tokens)
    return instances
