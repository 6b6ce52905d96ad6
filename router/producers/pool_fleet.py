"""The pool's endpoints as a conductor names them: instances and their data-parallel ranks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from indexer.block import Holder, Identity
from indexer.conductor.fleet import Known
from indexer.conductor.wire import DEFAULT_TENANT
from indexer.prefix_index import PrefixIndex
from router.config.motor_schema import Motor
from router.pool.endpoint import Endpoint
from router.pool.models import ModelNames
from router.pool.pool import Pool

_RANK = re.compile(r"-rank-[0-9]{1,5}$")


class PoolFleet:
    """What endpoints hold is the default tenant's. A `Fleet`."""

    def __init__(self, pool: Pool, index: PrefixIndex, motor: Motor) -> None:
        self._pool = pool
        self._index = index
        self._motor = motor
        self._resolve: Callable[[str], ModelNames] = pool.resolve_model

    def known(self, tenant: str, model: str) -> Known | None:
        if tenant != DEFAULT_TENANT:
            return None
        names, seen = self._resolve(model), self._index.models_seen()
        models = list(names.names)
        if model == self._motor.model:
            models += sorted(seen)
        elif model not in self._pool.models().known and seen.isdisjoint(models):
            return None
        identities = [Identity(name, names.adapter) for name in dict.fromkeys(models)]
        return Known(identities, dict(self._named()))

    def instances(self) -> Iterator[Mapping[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        named = dict(self._named())
        for holder, (name, rank) in sorted(named.items(), key=lambda item: item[1]):
            instance = found.setdefault(
                name,
                {
                    "instance_id": name,
                    "model_name": self._model(holder),
                    "tenant_id": DEFAULT_TENANT,
                    "block_size": self._index.block_size,
                    "store_backend": self._motor.media.backend,
                    "endpoints": {},
                },
            )
            instance["endpoints"][str(rank)] = self._rank(holder, rank)
        yield from found.values()

    def _rank(self, holder: Holder, rank: int) -> Mapping[str, Any]:
        state = self._index.state(holder)
        feeds = [f.source for f in self._index.feeds() if f.source.holder == holder]
        return {
            "medium_endpoints": {(s.tiers or ("npu",))[0]: s.endpoint for s in feeds},
            "engine_type": self._motor.engine_type,
            "dp_rank": rank,
            "replay_endpoint": next((s.replay for s in feeds if s.replay), None),
            "trust": state.trust,
            "blocks": state.blocks,
            "sent_block_size": state.block_size,
            "rejected": state.rejected,
        }

    def _named(self) -> Iterator[tuple[Holder, tuple[str, int]]]:
        """Every rank, with its instance; those of one endpoint share its name."""
        for endpoint in self._pool.snapshot():
            instance = _RANK.sub("", endpoint.name)
            for rank in sorted(_ranks(endpoint)):
                yield Holder(endpoint.address, rank), (instance, rank)

    def _model(self, holder: Holder) -> str:
        served = self._pool.get(holder.address)
        if served is not None and served.models is not None and served.models.names:
            return served.models.names[0]
        return self._motor.model


def _ranks(endpoint: Endpoint) -> set[int]:
    return {stream.rank for stream in endpoint.kv_events} or {endpoint.rank}
