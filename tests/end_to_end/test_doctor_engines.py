"""What engines, their events and the files about them can get wrong: found, mended, and gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import zmq.asyncio

from indexer.frames import MAX_PAYLOAD_BYTES
from tests.end_to_end.faulty import doctor, finds, found, gone
from tests.end_to_end.odd_engine import OddEngine
from tests.end_to_end.odd_world import CONFIG, INDEX_BYTES, World, entry_of, odd_world
from tests.end_to_end.publishers import stored
from tests.support.ports import loopback_block
from tests.support.processes import Fleet, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("doctor")]

SGLANG_METRICS = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 0.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 0.0
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 0.0
"""
"""Of SGLang, whose processes share one page, so that it tells of none when that began."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """One router for all tests: each spoils what is its own."""
    async with odd_world(tmp_path_factory.mktemp("doctor")) as made:
        yield made


async def test_an_endpoint_whose_events_nobody_reads_is_named_until_its_entry_says_where(
    world: World,
) -> None:
    fleet, address = world.fleet, world.odd["unread"].address
    events = world.listed["unread"]["kvEvents"]
    assert not await finds(fleet, "no-event-source")
    world.change("unread", kvEvents=None)
    finding = await found(fleet, "no-event-source")
    assert finding["about"] == address
    assert finding["evidence"] == {"producer": "precise-prefix-cache-producer", "kvEvents": None}
    assert "give it kvEvents in the endpoints file" in finding["fix"]
    world.change("unread", kvEvents=events)
    await gone(fleet, "no-event-source")


async def test_events_of_no_model_are_named_until_the_engine_says_what_it_serves(
    world: World,
) -> None:
    fleet = world.fleet
    with zmq.asyncio.Context() as context:
        late = OddEngine(loopback_block(), context)
        world.listed["late"] = entry_of("late", late.address)
        world.list()
        try:
            await late.listened_to()
            assert not await finds(fleet, "model-unknown")
            # It publishes before its HTTP port is open, under a topic without a model.
            for seq in range(3):
                await late.say(seq, stored([seq + 1], range(16)), topic="")
            finding = await found(fleet, "model-unknown")
            assert finding["about"] == late.address
            await until(lambda: _waiting(fleet, late.address, 3))
            finding = await found(fleet, "model-unknown")
            assert finding["evidence"] == {"waiting": 3, "served": None}
            assert "/v1/models" in finding["fix"]
            async with late.answering():
                await gone(fleet, "model-unknown")
                match = await fleet.match({"model": "tiny", "token_ids": list(range(16))})
                assert match["endpoints"][late.address]["blocks"] == 1
        finally:
            late.close()
            del world.listed["late"]
            world.list()


async def _waiting(fleet: Fleet, address: str, count: int) -> bool:
    finding = await found(fleet, "model-unknown", about=address)
    return bool(finding["evidence"]["waiting"] == count)


async def test_a_group_that_was_never_described_is_named_until_it_is(world: World) -> None:
    fleet, hybrid = world.fleet, world.odd["hybrid"]
    removed = {"type": "BlockRemoved", "block_hashes": [9], "medium": "GPU", "group_idx": 1}
    await hybrid.say(0, removed)
    window = {"kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 32}
    await until(lambda: _heard(fleet, hybrid, 0))
    assert not await finds(fleet, "groups-unknown")
    await hybrid.say(1, stored([1], range(16), group_idx=1, **window))
    finding = await found(fleet, "groups-unknown", about=hybrid.address)
    producer = "precise-prefix-cache-producer"
    assert finding["evidence"] == {"reason": "missing_group", "producer": producer}
    assert finding["what"] == "nothing it holds is credited: missing_group"
    assert "approx-prefix-cache-producer" in finding["fix"]
    full = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}
    await hybrid.say(2, stored([2], range(16), **full))
    await gone(fleet, "groups-unknown", hybrid.address)


async def test_a_group_of_an_unknown_kind_is_named_until_the_engine_begins_anew(
    world: World,
) -> None:
    fleet, novel = world.fleet, world.odd["novel"]
    assert not await finds(fleet, "groups-unknown", novel.address)
    await novel.say(0, stored([1], range(16), group_idx=0, kv_cache_spec_kind="novel"))
    finding = await found(fleet, "groups-unknown", about=novel.address)
    assert finding["evidence"]["reason"] == "unsupported_group"
    novel.begin_anew()
    await gone(fleet, "groups-unknown", novel.address)
    assert (await found(fleet, "engine-restarted", about=novel.address))["evidence"]["times"] == 1


async def test_messages_of_a_wrong_size_or_form_are_counted_until_the_engine_begins_anew(
    world: World,
) -> None:
    fleet, garbled = world.fleet, world.odd["garbled"]
    await garbled.say(0, stored([1], range(16)))
    await until(lambda: _heard(fleet, garbled, 0))
    assert not await finds(fleet, "events-left-out")
    await garbled.send(1, b"\xc1")
    await garbled.say(2, {"type": "BlockMoved"}, {"type": "BlockStored", "block_size": "16"})
    await garbled.say(3, stored([1, 2], range(16)))
    await garbled.send(4, b"", b"a fourth frame")
    await garbled.send(4, bytes(MAX_PAYLOAD_BYTES + 1))
    await garbled.say(4, stored([3], range(16)))
    await until(lambda: _heard(fleet, garbled, 4))
    finding = await found(fleet, "events-left-out")
    assert finding["about"] == garbled.address
    assert finding["evidence"]["reasons"] == {
        "not_msgpack": 1,
        "unknown_event": 1,
        "bad_event": 1,
        "count_mismatch": 1,
        "bad_frames": 1,
        "too_large": 1,
    }
    assert finding["what"] == "6 of its messages and events could not be used"
    assert "versions that fit" in finding["fix"]
    garbled.begin_anew()
    await gone(fleet, "events-left-out")


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("tcp://127.0.0.1:65570", "not a TCP port: '65570'"),
        ("tcp://-engine:5557", "Invalid argument"),
        (f"ipc:///{'long/' * 40}socket", "File name too long"),
    ],
    ids=["port", "host", "path"],
)
async def test_an_address_of_events_that_no_socket_can_have_is_named_until_it_is_corrected(
    world: World, endpoint: str, why: str
) -> None:
    fleet, moved = world.fleet, world.odd["moved"]
    assert not await finds(fleet, "event-socket-unusable")
    world.change("moved", kvEvents={"endpoint": endpoint})
    finding = await found(fleet, "event-socket-unusable")
    assert finding["about"] == moved.address
    assert finding["evidence"]["endpoint"] == endpoint
    assert why in finding["evidence"]["error"]
    assert why in finding["what"]
    assert finding["fix"] == "correct the address of its kvEvents in the endpoints file"
    assert not await finds(fleet, "no-event-source", moved.address)
    world.change("moved", kvEvents={"endpoint": moved.events})
    await gone(fleet, "event-socket-unusable")
    await until(world.all_connected)


async def test_an_address_of_events_where_nobody_is_is_named_until_it_is_corrected(
    world: World,
) -> None:
    fleet, moved = world.fleet, world.odd["moved"]
    nowhere = "tcp://no..host:5557"
    assert not await finds(fleet, "event-stream-unreached")
    world.change("moved", kvEvents={"endpoint": nowhere})
    finding = await found(fleet, "event-stream-unreached")
    assert finding["about"] == moved.address
    assert finding["evidence"] == {"endpoint": nowhere, "connections": 0}
    assert "see that the engine publishes events there" in finding["fix"]
    world.change("moved", kvEvents={"endpoint": moved.events})
    await gone(fleet, "event-stream-unreached")


async def test_metrics_without_the_queue_are_named_until_they_have_it(world: World) -> None:
    fleet, lacking = world.fleet, world.odd["lacking"]
    assert not await finds(fleet, "metrics-incomplete", lacking.address)
    whole = lacking.metrics
    lacking.metrics = whole.replace("num_requests_waiting", "num_requests_queued").replace(
        'num_requests_running{engine="0",model_name="tiny"} 0', "num_requests_running many"
    )
    finding = await found(fleet, "metrics-incomplete", about=lacking.address)
    assert finding["evidence"] == {"missing": ["waiting", "running"], "ignored_lines": 1}
    assert finding["what"] == "its metrics lack waiting and running requests"
    lacking.metrics = whole
    await gone(fleet, "metrics-incomplete", lacking.address)


async def test_metrics_of_another_kind_of_engine_are_named_until_its_label_says_so(
    world: World,
) -> None:
    fleet, sglang = world.fleet, world.odd["sglang"]
    assert not await finds(fleet, "metrics-incomplete", sglang.address)
    sglang.metrics = SGLANG_METRICS
    finding = await found(fleet, "metrics-incomplete", about=sglang.address)
    assert finding["evidence"]["missing"] == ["waiting", "running"]
    assert "label the endpoint with its kind of engine (llm-d.ai/engine-type)" in finding["fix"]
    world.change("sglang", labels={"llm-d.ai/engine-type": "sglang"})
    await gone(fleet, "metrics-incomplete", sglang.address)
    await gone(fleet, "metrics-stale", sglang.address)


async def test_an_index_without_room_is_named_until_the_engine_clears_its_cache(
    world: World,
) -> None:
    fleet = world.fleet
    await _complete(world, range(1, 70))
    await until(lambda: _held(fleet, world.real, 4))
    assert not await finds(fleet, "index-full", world.real)
    await _complete(world, range(100, 100 + 16 * 400))
    finding = await found(fleet, "index-full", about=world.real)
    evidence = finding["evidence"]
    assert 90 < evidence["dropped_blocks"] <= 404
    assert evidence["index_bytes"] == INDEX_BYTES
    assert INDEX_BYTES / 2 < evidence["bytes"] <= INDEX_BYTES
    assert evidence["index_bytes_per_endpoint"] is None
    assert f"no room in the index for {evidence['dropped_blocks']} of its blocks" in finding["what"]
    assert "raise --index-bytes" in finding["fix"]
    async with fleet.session.post(f"http://{world.real}/reset_prefix_cache") as response:
        assert response.status == 200
    # As with vLLM, the clear is told with what is computed next.
    await _complete(world, range(1, 70))
    await gone(fleet, "index-full")


async def test_a_file_that_cannot_run_is_named_until_it_is_corrected(world: World) -> None:
    fleet = world.fleet
    assert not await finds(fleet, "config-not-in-force")
    world.config.write_text(CONFIG.replace("prefix-cache-scorer", "prefix-cash-scorer"))
    finding = await found(fleet, "config-not-in-force")
    assert finding["about"] == "configuration"
    assert "did you mean 'prefix-cache-scorer'?" in finding["evidence"]["error"]
    assert finding["evidence"]["failures"] == 1
    assert finding["evidence"]["error"] in finding["what"]
    code, output = await doctor(fleet)
    assert code == 1
    assert "[config-not-in-force]" in output
    assert "warmroute check FILE" in output
    world.config.write_text(CONFIG)
    await gone(fleet, "config-not-in-force")


async def _complete(world: World, prompt: range) -> None:
    """Let the simulated engine compute token ids."""
    body = {"model": "tiny", "prompt": list(prompt), "max_tokens": 1}
    async with world.fleet.session.post(
        f"http://{world.real}/v1/completions", json=body
    ) as response:
        assert response.status == 200, await response.text()
        await response.read()


async def _held(fleet: Fleet, address: str, blocks: int) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    held = {h["holder"]["address"]: sum(h["blocks"].values()) for h in index["holders"]}
    return bool(held.get(address, 0) >= blocks)


async def _heard(fleet: Fleet, odd: OddEngine, seq: int) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    feeds = {feed["holder"]["address"]: feed["stats"]["last_seq"] for feed in index["feeds"]}
    return bool(feeds.get(odd.address) == seq)
