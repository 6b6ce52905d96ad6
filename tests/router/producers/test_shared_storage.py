"""Endpoints of which nothing was heard are credited with what lies in shared storage."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indexer.block import Holder
from indexer.feed import Source
from indexer.storage import shared_by
from router.pool.endpoint import Endpoint, ServedModels
from router.producers.facts import HeldPrefix
from tests.router.producers.test_prefix import A, B, Fixture, removed, stored
from tests.support import make

C = "10.0.0.3:8000"
BOTH = ServedModels(names=("m",), adapters={"sql": "m"})


def fleet(*silent: Endpoint, **parameters: Any) -> Fixture:
    """A is heard; the silent ones are subscribed to, like any endpoint."""
    return Fixture(make.endpoint(A, models=BOTH), *silent, **parameters)


def share(fixture: Fixture, *events: Any, model: str = "m") -> None:
    storage = Source(shared_by(model), "tcp://x", base_model=model, unordered=True)
    feed = fixture.prefix.index.open(storage)
    payload = msgspec.msgpack.encode([1.0, events, 0])
    feed.receive([f"kv@SHARED_STORAGE@{model}".encode(), bytes(8), payload], 1.0)


async def test_a_silent_endpoint_of_the_model_has_what_lies_in_storage() -> None:
    fixture = fleet(make.endpoint(B, models=ServedModels(names=("m",))), make.endpoint(C))
    fixture.announce(A, stored([1, 2, 3, 4], range(64)), removed(3, 4))
    share(fixture, stored([1, 2, 3], range(48)))
    held = await fixture.held()
    assert held[A] == HeldPrefix(3, {"gpu": 2, "shared_storage": 1}, 3, 3.0)
    assert held[B] == held[C] == HeldPrefix(3, {"shared_storage": 3}, 3, 3.0)


async def test_it_weighs_as_configured() -> None:
    weights = [{"name": "gpu", "weight": 1.0}, {"name": "shared_storage", "weight": 0.25}]
    fixture = fleet(make.endpoint(B), indexerConfig={"kvCacheBackendConfigs": weights})
    fixture.announce(A, stored([1, 2], range(32)))
    share(fixture, stored([1, 2, 3, 4], range(64)))
    held = await fixture.held()
    assert {address: prefix.weighted for address, prefix in held.items()} == {A: 2.5, B: 1.0}


@pytest.mark.parametrize(
    ("models", "adapter", "blocks"),
    [
        (None, None, 2),
        (ServedModels(names=("m",)), None, 2),
        (ServedModels(names=("alias",), root="m"), None, 2),
        (ServedModels(names=("other",)), None, 0),
        (ServedModels(names=("m",)), "sql", 0),
        (BOTH, "sql", 2),
    ],
    ids=["not-told", "same", "by-root", "other", "without-adapter", "with-adapter"],
)
async def test_only_endpoints_that_may_serve_the_request_are_credited(
    models: ServedModels | None, adapter: str | None, blocks: int
) -> None:
    fixture = fleet(make.endpoint(B, models=models))
    extra = {"lora_name": adapter, "extra_keys": [[adapter]] * 2} if adapter else {}
    share(fixture, stored([1, 2], range(32), **extra))
    held = await fixture.held(model=adapter or "m")
    assert (held[B].blocks if B in held else 0) == blocks


async def test_an_endpoint_that_was_heard_of_another_model_is_not_credited() -> None:
    fixture = fleet(make.endpoint(B))
    fixture.announce(B, stored([1], range(16)), topic=b"kv@x@other")
    share(fixture, stored([1, 2], range(32)))
    assert B not in await fixture.held()


async def test_a_guess_beside_it_is_kept() -> None:
    fixture = fleet(make.endpoint(B))
    await fixture.send(B)
    share(fixture, stored([1, 2], range(32)))
    held = await fixture.held()
    assert (held[B].blocks, held[B].speculative, held[B].weighted) == (2, 4, 4.0)


async def test_nobody_is_credited_where_nothing_is_shared() -> None:
    fixture = fleet(make.endpoint(B))
    fixture.announce(A, stored([1], range(16)))
    assert set(await fixture.held()) == {A}
    assert shared_by("m") not in {Holder(address) for address in await fixture.held()}
