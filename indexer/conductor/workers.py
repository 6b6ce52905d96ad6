"""What a conductor tells of itself: who registered, what the indexes hold and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from indexer.conductor.conductor import Conductor
from indexer.conductor.registry import Registration


def workers(conductor: Conductor) -> Mapping[str, Any]:
    """The answer of `/workers`."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for each in sorted(conductor.registry, key=lambda registration: registration.key):
        worker = found.setdefault((each.key.tenant, each.key.instance), _worker(each))
        worker["endpoints"][str(each.key.rank)] = _endpoint(conductor, each)
    others = conductor.fleet.instances() if conductor.fleet else ()
    return {"workers": [*found.values(), *others], "indexer": list(_summaries(conductor))}


def faults(conductor: Conductor) -> Iterator[str]:
    """Registrations that are worth less than they should be, in a few words each."""
    for each in conductor.registry:
        size = conductor.indexes[each.block_size].state(each.holder).block_size
        if size is not None and size != each.block_size:
            yield (
                f"{each.key.instance} rank {each.key.rank} registered with blocks of"
                f" {each.block_size} tokens and sends blocks of {size}"
            )


def _worker(each: Registration) -> dict[str, Any]:
    return {
        "instance_id": each.key.instance,
        "model_name": each.model,
        "tenant_id": each.key.tenant,
        "block_size": each.block_size,
        "store_backend": each.backend,
        "endpoints": {},
    }


def _endpoint(conductor: Conductor, each: Registration) -> Mapping[str, Any]:
    state = conductor.indexes[each.block_size].state(each.holder)
    return {
        "medium_endpoints": each.told,
        "engine_type": each.engine,
        "dp_rank": each.key.rank,
        "replay_endpoint": each.replay,
        "trust": state.trust,
        "blocks": state.blocks,
        "sent_block_size": state.block_size,
        "rejected": state.rejected,
    }


def _summaries(conductor: Conductor) -> Iterator[Mapping[str, Any]]:
    registry = conductor.registry
    for model, tenant, size in sorted({(r.model, r.key.tenant, r.block_size) for r in registry}):
        blocks = conductor.indexes[size].blocks
        held = (blocks.blocks(r.holder).values() for r in registry.asked(tenant, model, size))
        yield {
            "model_name": model,
            "tenant_id": tenant,
            "block_size": size,
            "blocks": sum(map(sum, held)),
        }
