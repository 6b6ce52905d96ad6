"""The API over real HTTP and real ZMQ sockets: statuses, encodings, and from events to answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from indexer.hashing import content_hashes, pack
from tests.indexer import make
from tests.indexer.conductor.api import (
    MODEL,
    SIZE,
    TOPIC,
    Api,
    covered,
    query,
    registering,
    stored,
    tokens,
)
from tests.indexer.subscribed import PATIENCE_S, Context, Publisher

ENGINE = "vllm-prefill-1"
OK = {"status": "ok"}


async def until(api: Api, expected: Mapping[str, Any], instance: str = ENGINE) -> None:
    """Wait until an instance's ranks are these."""
    async with asyncio.timeout(PATIENCE_S):
        while (await api.ranks(instance)) != expected:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def posted(*events: dict[str, Any], rank: int = 0, **fields: Any) -> dict[str, Any]:
    told = [{"event_id": n, "dp_rank": rank, "data": data} for n, data in enumerate(events)]
    return {"instance_id": ENGINE, "block_size": SIZE, "events": told, "shutdown": False, **fields}


def of_pool(kind: str, names: Sequence[int | str], **fields: Any) -> dict[str, Any]:
    return {"event_id": 1, "event_type": kind, "medium": "cpu", "seq_hashes": [*names], **fields}


# -- from events to answers ---------------------------------------------------------------------


async def test_three_blocks_in_hbm_and_two_in_cpu_make_640_tokens(
    api: Api, context: Context
) -> None:
    with Publisher(context) as engine:
        body = registering(medium_endpoints={"npu": engine.endpoint})
        assert await api.post("/register", body) == (201, OK)
        await engine.heard()
        engine.send(stored([11, 12, 13], medium="NPU"), topic=TOPIC)
        engine.send(stored([14, 15], start=3, parent=13, medium="CPU"), topic=TOPIC)
        await until(api, {"0": covered(3, 2, 0)})
        counts = {"matched_tokens": 640, "npu_blocks": 3, "cpu_blocks": 2, "disk_blocks": 0}
        instances = {ENGINE: {"longest_matched": 640, "DP": {"0": counts}}}
        assert await api.post("/query", query(5)) == (200, {"default": instances})


async def test_ranks_of_an_instance_answer_apart_and_the_longest_is_told(
    api: Api, context: Context
) -> None:
    with Publisher(context) as first, Publisher(context) as second:
        for rank, engine in enumerate((first, second)):
            body = registering(rank=rank, medium_endpoints={"npu": engine.endpoint})
            assert (await api.post("/register", body)).status == 201
            await engine.heard()
        first.send(stored([11]), topic=TOPIC)
        second.send(stored([21, 22]), topic=TOPIC)
        await until(api, {"0": covered(1), "1": covered(2)})
        assert (await api.found())[ENGINE]["longest_matched"] == 256


async def test_the_model_of_a_registered_engine_is_the_one_it_registered_with(
    api: Api, context: Context
) -> None:
    with Publisher(context) as engine:
        body = registering(medium_endpoints={"npu": engine.endpoint})
        await api.post("/register", body)
        await engine.heard()
        engine.send(stored([11]), topic=b"kv@10.0.0.1:8000@another")
        await until(api, {"0": covered(1)})


async def test_an_engine_that_starts_again_holds_nothing(api: Api, context: Context) -> None:
    with Publisher(context) as engine:
        await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
        await engine.heard()
        engine.send(stored([11, 12]), topic=TOPIC)
        engine.send(stored([13], start=2, parent=12), topic=TOPIC)
        await until(api, {"0": covered(3)})
        engine.seq = 0
        engine.send(stored([31]), topic=TOPIC)
        await until(api, {"0": covered(1)})


# -- pools --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["mooncake", "memcache"])
async def test_what_a_pool_keeps_on_a_node_counts_for_every_rank_there(
    api: Api, context: Context, form: str
) -> None:
    with Publisher(context) as one, Publisher(context) as two, Publisher(context) as pool:
        for rank, engine in enumerate((one, two)):
            body = registering(
                rank=rank, medium_endpoints={"npu": engine.endpoint}, store_backend=form
            )
            assert (await api.post("/register", body)).status == 201
            await engine.heard()
        body = registering(f"{form}-pool", endpoint=pool.endpoint, store_backend=form)
        assert await api.post("/register", body) == (201, OK)
        await pool.heard()
        one.send(stored([11, 12, 13, 14]), topic=TOPIC)
        told = of_pool("stored", [12, 13], backend_id="127.0.0.1:9000")
        payload = [0, [told], 0] if form == "mooncake" else {"events": [told]}
        pool.socket.send_multipart([b"", bytes(8), msgspec.msgpack.encode(payload)])
        await until(api, {"0": covered(4)})
        one.send(make.removed([12, 13, 14]), topic=TOPIC)
        await until(api, {"0": covered(1, 2)})
        two.send(stored([11]), topic=TOPIC)
        await until(api, {"0": covered(1, 2), "1": covered(1, 2)})


async def test_a_pool_may_speak_before_the_engine_says_what_it_gave_it(
    api: Api, context: Context
) -> None:
    with Publisher(context) as engine, Publisher(context) as pool:
        await api.post("/register", registering("mooncake-pool", endpoint=pool.endpoint))
        await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
        await pool.heard()
        await engine.heard()
        hexed = [hex(11), str(12)]
        told = [of_pool("stored", hexed, backend_id="127.0.0.1", medium=None)]
        pool.socket.send_multipart([b"", bytes(8), msgspec.msgpack.encode([0, told, 0])])
        engine.send(stored([11, 12], medium="CPU"), topic=TOPIC)
        await until(api, {"0": covered(0, 2)})
        engine.send(make.removed([11], medium="CPU"), stored([21], start=9), topic=TOPIC)
        gone = [of_pool("removed", [12], backend_id="127.0.0.1")]
        pool.socket.send_multipart(
            [b"", (1).to_bytes(8, "big"), msgspec.msgpack.encode([0, gone, 0])]
        )
        await until(api, {"0": covered(0, 1)})


async def test_a_rank_may_have_ports_of_its_own_for_cpu_and_disk(
    api: Api, context: Context
) -> None:
    with Publisher(context) as npu, Publisher(context) as cpu, Publisher(context) as disk:
        endpoints = {"npu": npu.endpoint, "cpu": cpu.endpoint, "ssd": disk.endpoint}
        body = registering(medium_endpoints=endpoints, store_backend="YuanRong")
        assert (await api.post("/register", body)).status == 201
        for publisher in (npu, cpu, disk):
            await publisher.heard()
        npu.send(stored([11, 12, 13, 14, 15]), topic=TOPIC)
        await until(api, {"0": covered(5)})
        told = msgspec.msgpack.encode([0, [of_pool("stored", [12, 13], medium=None)], 0])
        cpu.socket.send_multipart([b"", bytes(8), told])
        disk.send(stored([14], start=3, parent=13), topic=TOPIC)
        npu.send(make.removed([12, 13, 14, 15]), topic=TOPIC)
        await until(api, {"0": covered(1, 2, 1)})


async def test_a_node_pool_of_yuanrong_counts_for_the_ranks_of_its_node(
    api: Api, context: Context
) -> None:
    with Publisher(context) as engine, Publisher(context) as pool:
        backend: dict[str, Any] = {"store_backend": "YuanRong"}
        body = registering(medium_endpoints={"npu": engine.endpoint}, **backend)
        assert (await api.post("/register", body)).status == 201
        body = registering("yuanrong-pool-1", medium_endpoints={"cpu": pool.endpoint}, **backend)
        assert (await api.post("/register", body)).status == 201
        await engine.heard()
        await pool.heard()
        engine.send(stored([11, 12], medium="host"), topic=TOPIC)
        told = msgspec.msgpack.encode([0, [of_pool("stored", [11, 12])], 0])
        pool.socket.send_multipart([b"", bytes(8), told])
        await until(api, {"0": covered(0, 2)})


# -- events that are posted ---------------------------------------------------------------------


async def test_posted_blocks_with_content_hashes_answer_queries_of_both_kinds(api: Api) -> None:
    await api.post("/register", registering())
    contents = content_hashes(pack(tokens(3)), SIZE)
    blocks = [
        {"block_hash": 11, "tokens_hash": contents[0]},
        {"block_hash": "0x0c", "tokens_hash": hex(contents[1])},
    ]
    more = [{"block_hash": 13, "tokens_hash": str(contents[2])}]
    reply = await api.post(
        "/events",
        posted(
            {"type": "stored", "blocks": blocks},
            {"type": "stored", "blocks": more, "parent_block_hash": 12, "medium": "dfs"},
        ),
    )
    assert reply == (200, {"status": "ok", "events_applied": 2})
    assert await api.ranks() == {"0": covered(2, 0, 1)}
    asked = {"model": MODEL, "block_size": SIZE, "block_hashes": contents, "tenant_id": "default"}
    by_hash = await api.post("/query_by_hash", asked)
    assert by_hash.body["default"][ENGINE]["DP"] == {"0": covered(2, 0, 1)}


async def test_posted_tokens_count_in_whole_blocks(api: Api) -> None:
    await api.post("/register", registering())
    data = {
        "type": "stored",
        "token_ids": tokens(3)[:-1],
        "block_hashes": [11, 12, 13],
        "block_size": SIZE,
    }
    assert (await api.post("/events", posted(data))).body["events_applied"] == 1
    assert await api.ranks() == {"0": covered(2)}
    gone = {"type": "removed", "block_hashes": [12]}
    assert (await api.post("/events", posted(gone))).status == 200
    assert await api.ranks() == {"0": covered(1)}
    flat = {"event_id": 9, "type": "cleared", "dp_rank": 0}
    body = {"instance_id": ENGINE, "block_size": SIZE, "events": [flat]}
    assert (await api.post("/events", body)).status == 200
    assert await api.found() == {}


async def test_an_instance_that_only_posts_needs_no_registration_if_it_names_its_model(
    api: Api,
) -> None:
    data = {"type": "stored", "token_ids": tokens(1), "block_hashes": [11]}
    assert (await api.post("/events", posted(data))).status == 404
    assert (await api.post("/events", posted(data, rank=3, model_name=MODEL))).status == 200
    assert await api.ranks() == {"3": covered(1)}
    assert (await api.post("/register", registering(rank=3))).status == 201
    assert await api.ranks() == {"3": covered(1)}


async def test_a_bad_event_tells_how_many_before_it_were_applied(api: Api) -> None:
    await api.post("/register", registering())
    good = {"type": "stored", "token_ids": tokens(1), "block_hashes": [11]}
    reply = await api.post("/events", posted(good, good, {"type": "moved"}, good))
    assert (reply.status, reply.body["events_applied"]) == (400, 2)
    assert "events[2]" in reply.body["error"]


async def test_an_instance_that_shuts_down_has_nothing_any_more(api: Api) -> None:
    await api.post("/register", registering())
    data = {"type": "stored", "token_ids": tokens(1), "block_hashes": [11]}
    await api.post("/events", posted(data))
    assert (await api.post("/events", posted(shutdown=True))).status == 200
    assert await api.found() == {}


# -- statuses -----------------------------------------------------------------------------------


async def test_a_registration_counts_once_and_a_changed_one_begins_anew(
    api: Api, context: Context
) -> None:
    with Publisher(context) as old, Publisher(context) as new:
        body = registering(medium_endpoints={"npu": old.endpoint})
        await api.post("/register", body)
        await old.heard()
        old.send(stored([11]), topic=TOPIC)
        await until(api, {"0": covered(1)})
        again = await api.post("/register", body)
        assert again.status == 409
        assert "registered already" in again.body["error"]
        assert await api.ranks() == {"0": covered(1)}
        body = registering(medium_endpoints={"npu": new.endpoint})
        assert (await api.post("/register", body)).status == 201
        assert await api.found() == {}
        await old.heard(0)
        await new.heard()


async def test_an_unregistered_engine_is_forgotten_and_its_socket_closed(
    api: Api, context: Context
) -> None:
    with Publisher(context) as engine:
        await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
        await engine.heard()
        engine.send(stored([11]), topic=TOPIC)
        await until(api, {"0": covered(1)})
        assert await api.post("/unregister", registering()) == (200, OK)
        await engine.heard(0)
        assert (await api.post("/unregister", registering())).status == 404
        assert (await api.post("/query", query())).status == 404


async def test_nothing_found_is_an_empty_tenant_and_an_unknown_model_or_tenant_is_404(
    api: Api,
) -> None:
    await api.post("/register", registering())
    assert await api.post("/query", query()) == (200, {"default": {}})
    assert (await api.post("/query", query(model="other"))).status == 404
    assert (await api.post("/query", query(tenant_id="other"))).status == 404


async def test_tenants_and_models_are_apart(api: Api) -> None:
    data = {"type": "stored", "token_ids": tokens(2), "block_hashes": [11, 12]}
    for tenant, model in (("default", "m"), ("acme", "m"), ("default", "n")):
        name = f"{tenant}-{model}"
        body = registering(name, tenant_id=tenant, modelname=model)
        assert (await api.post("/register", body)).status == 201
        told = posted(data, tenant_id=tenant, instance_id=name)
        assert (await api.post("/events", told)).status == 200
    for tenant, model in (("default", "m"), ("acme", "m"), ("default", "n")):
        reply = await api.post("/query", query(tenant_id=tenant, model=model))
        assert list(reply.body) == [tenant]
        assert list(reply.body[tenant]) == [f"{tenant}-{model}"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/register", b"{"),
        ("/register", b"[]"),
        ("/register", msgspec.json.encode({"instance_id": "a"})),
        ("/register", msgspec.json.encode(registering(block_size=0))),
        ("/register", msgspec.json.encode(registering(rank=-1))),
        ("/register", msgspec.json.encode(registering(medium_endpoints={"tape": "tcp://a:1"}))),
        ("/register", msgspec.json.encode(registering(medium_endpoints={"npu": "tcp://*:5557"}))),
        ("/register", msgspec.json.encode(registering(medium_endpoints={"npu": "tcp://a:99999"}))),
        ("/register", msgspec.json.encode(registering(replay_endpoint="nowhere"))),
        ("/unregister", b"{}"),
        ("/query", b"{}"),
        ("/query", msgspec.json.encode(query(token_ids=[-1]))),
        ("/query", msgspec.json.encode(query(token_ids=["a"]))),
        ("/query", msgspec.json.encode(query(token_ids=[1 << 32]))),
        ("/query_by_hash", msgspec.json.encode({"model": MODEL, "block_hashes": ["x"]})),
        ("/events", b'{"events": []}'),
        ("/events", b'{"instance_id": "a", "events": [1]}'),
    ],
)
async def test_what_is_malformed_is_400(api: Api, path: str, body: bytes) -> None:
    reply = await api.post(path, body)
    assert (reply.status, list(reply.body)) == (400, ["error"])


# -- encodings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type", ["application/msgpack", "application/x-msgpack; charset=utf-8"]
)
async def test_messagepack_is_answered_in_messagepack(api: Api, content_type: str) -> None:
    assert await api.post("/register", registering(), content_type) == (201, OK)
    data = {"type": "stored", "token_ids": tokens(1), "block_hashes": [b"\x00" * 24 + bytes(8)]}
    assert (await api.post("/events", posted(data), content_type)).status == 200
    packed = await api.post("/query", query(), content_type)
    assert packed == await api.post("/query", query())
    assert (await api.post("/query", b"\xc1", content_type)).status == 400
    missing = await api.post("/query", query(model="other"), content_type)
    assert (missing.status, list(missing.body)) == (404, ["error"])


# -- state --------------------------------------------------------------------------------------


async def test_health_and_workers_tell_of_the_conductor(api: Api, context: Context) -> None:
    assert await api.get("/health") == (200, "OK")
    with Publisher(context) as engine:
        await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
        await engine.heard()
        engine.send(stored([11, 12]), topic=TOPIC)
        await until(api, {"0": covered(2)})
        status, text = await api.get("/workers")
        told = msgspec.json.decode(text)
        (worker,) = told["workers"]
        assert (status, worker["instance_id"], worker["model_name"]) == (200, ENGINE, MODEL)
        rank = worker["endpoints"]["0"]
        assert rank["medium_endpoints"] == {"npu": engine.endpoint}
        assert (rank["trust"], rank["blocks"]) == ("exact", {"gpu": 2})
        assert told["indexer"] == [
            {"model_name": MODEL, "tenant_id": "default", "block_size": SIZE, "blocks": 2}
        ]
