"""Each fault is caused in real processes, and the doctor names it with its evidence and its fix."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import zmq
import zmq.asyncio

from router.telemetry.doctor.tokenizing import MIN_ASKED, SLOW_S
from tests.end_to_end.faulty import (
    TEXT,
    ask,
    doctor,
    faulty_fleet,
    findings,
    finds,
    found,
    gone,
    other_tokenizer,
)
from tests.end_to_end.publishers import Engines, heard, stored, subscribed
from tests.end_to_end.routers import router
from tests.support.processes import START_S, Fleet, engine, until

PINNING = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: token-producer, parameters: {sidecar: {}}}
  - {type: precise-prefix-cache-producer, parameters: {speculativeIndexing: true}}
  - {type: inflight-load-producer}
  - {type: endpoint-notification-source}
  - {type: prefix-cache-scorer}
  - {type: decode-filter}
dataLayer:
  sources:
    - pluginRef: endpoint-notification-source
      extractors: [{pluginRef: precise-prefix-cache-producer}]
schedulingProfiles:
  - name: default
    plugins: [{pluginRef: prefix-cache-scorer}]
"""


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Fleet]:
    """A router without Envoy is to be started in it."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Fleet(tmp_path, session)


async def predicted_and_actual(fleet: Fleet) -> tuple[float, float]:
    """Prompt tokens expected from the caches, and found there as the engines' counters say."""
    predicted = await fleet.metric("warmroute_endpoint_predicted_cached_tokens_total")
    return predicted, await fleet.metric("warmroute_engine_prefix_hits_total")


async def test_where_nothing_is_wrong_it_says_so_and_predictions_are_within_one_percent(
    tmp_path: Path,
) -> None:
    async with faulty_fleet(tmp_path, engines=2) as fleet:
        for number in range(12):
            await ask(fleet, f"{number % 4} {TEXT * (1 + number % 3)}", count=5)

        async def scraped() -> bool:
            queries = await fleet.metric("warmroute_engine_prefix_queries_total")
            prompts = await fleet.metric("warmroute_endpoint_prompt_tokens_total")
            return queries >= prompts > 4_000

        await until(scraped)
        predicted, actual = await predicted_and_actual(fleet)
        assert actual > 0.8 * await fleet.metric("warmroute_endpoint_prompt_tokens_total")
        assert predicted == pytest.approx(actual, rel=0.01)
        assert await findings(fleet, silence="1s") == {}
        assert await doctor(fleet) == (0, "nothing is wrong\n")


async def test_a_block_size_that_does_not_fit_is_named_with_both_sizes(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path, engine_flags=("--block-size=24",)) as fleet:
        await ask(fleet, TEXT, count=3)
        finding = await found(fleet, "block-size-differs")
        assert finding["about"] == fleet.engines[0]
        assert (finding["evidence"]["engine"], finding["evidence"]["index"]) == (24, 16)
        code, output = await doctor(fleet)
        assert code == 1
        assert "its blocks of 24 tokens do not fit the index's of 16" in output
        assert "--block-size 16" in output


async def test_another_model_name_in_the_topic_is_named_and_predictions_are_off(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.yaml"
    # Guesses would make up for the events that are missed, for a while.
    config.write_text(PINNING.replace("speculativeIndexing: true", "speculativeIndexing: false"))
    topic, flags = ("--topic=kv@e1@other",), (f"--config-file={config}",)
    async with faulty_fleet(tmp_path, engine_flags=topic, router_flags=flags) as fleet:
        await ask(fleet, TEXT * 8, count=12)
        finding = await found(fleet, "model-differs")
        assert finding["evidence"]["events"] == ["other"]
        assert finding["evidence"]["requests"] == ["tiny"]
        off = await found(fleet, "prediction-off")
        evidence = off["evidence"]
        assert evidence["predicted_tokens"] < evidence["engine_hits"] / 2
        assert evidence["engine_queries"] == pytest.approx(evidence["prompt_tokens"], rel=0.3)
        assert "the index knows less than the engine" in off["fix"]
        assert "speculation-unconfirmed" not in await findings(fleet)


async def test_a_topic_that_is_filtered_out_is_named_with_the_filter(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        PINNING.replace("{speculativeIndexing: true}", "{kvEventsConfig: {topicFilter: kv@}}")
    )
    flags = (f"--config-file={config}",)
    async with faulty_fleet(
        tmp_path, engine_flags=("--topic=events",), router_flags=flags
    ) as fleet:
        await ask(fleet, TEXT, count=2)
        finding = await found(fleet, "topic-differs")
        assert (finding["evidence"]["engine"], finding["evidence"]["filter"]) == ("events", "kv@")
        # The configuration asks for a filter that no profile uses: that can have no effect.
        assert "decode-filter" in (await found(fleet, "config-warning"))["what"]


async def test_another_tokenizer_is_named_with_both_counts(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path, model_dir=other_tokenizer(tmp_path)) as fleet:
        await ask(fleet, TEXT * 2, count=3)
        finding = await found(fleet, "tokenizer-differs")
        evidence = finding["evidence"]
        assert evidence["tokenizer"] > evidence["engine"] > 0
        assert evidence["confirmed"] == 0
        assert "--model tiny=DIR" in finding["fix"]


async def test_guesses_that_are_never_confirmed_are_named_where_usage_is_not_read(
    tmp_path: Path,
) -> None:
    other = other_tokenizer(tmp_path)
    async with faulty_fleet(tmp_path, model_dir=other, router_flags=("--usage-sample=0",)) as fleet:
        await ask(fleet, TEXT * 2, count=3)
        evidence = (await found(fleet, "speculation-unconfirmed"))["evidence"]
        assert evidence["confirmed"] == 0 < evidence["expired"]
        assert evidence["blocks_told_of"] > 0


async def test_an_engine_that_dies_and_comes_back_is_followed(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path) as fleet:
        (address,) = fleet.engines
        host = address.partition(":")[0]
        await ask(fleet, TEXT)
        await until(lambda: _heard(fleet))
        assert await findings(fleet) == {}
        fleet.kill(host)
        await fleet.processes[host].wait()
        assert (await found(fleet, "event-stream-lost"))["about"] == address
        stale = await found(fleet, "metrics-stale")
        assert stale["evidence"]["age_s"] >= stale["evidence"]["good_for_s"]
        async with engine(fleet, host):
            finding = await found(fleet, "engine-restarted")
            assert (finding["about"], finding["evidence"]["times"]) == (address, 1)
            await gone(fleet, "event-stream-lost")
            await gone(fleet, "metrics-stale")


async def test_an_engine_that_computes_and_says_nothing_is_silent(tmp_path: Path) -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as mute:
        mute.setsockopt(zmq.LINGER, 0)
        port = mute.bind_to_random_port("tcp://127.0.0.1")
        events = f"tcp://127.0.0.1:{port}"
        async with faulty_fleet(tmp_path, events=events) as fleet:
            await ask(fleet, TEXT, count=2)
            assert "no-events" not in await findings(fleet, silence="30s")
            finding = await found(fleet, "no-events", silence="1s")
            assert finding["evidence"]["prompts_since"] >= 1
            assert finding["evidence"]["endpoint"] == events


async def test_a_tokenizer_that_is_away_or_hangs_is_named_with_the_reasons(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path) as fleet:
        sidecar = fleet.processes["tokenizer"]
        await ask(fleet, TEXT)
        assert await findings(fleet) == {}
        sidecar.send_signal(signal.SIGSTOP)
        try:
            await ask(fleet, TEXT)
            finding = await found(fleet, "tokenizer-falls-back")
        finally:
            sidecar.send_signal(signal.SIGCONT)
        assert finding["evidence"]["missing"] == {"timeout": 1}
        assert not await finds(fleet, "tokenizer-away")
        fleet.kill("tokenizer")
        assert not (await found(fleet, "tokenizer-away"))["evidence"]["connected"]
        await ask(fleet, TEXT)
        missing = (await found(fleet, "tokenizer-falls-back"))["evidence"]["missing"]
        assert missing["unavailable"] == 1


async def test_a_tokenizer_that_takes_long_is_named(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path) as fleet:
        sidecar = fleet.processes["tokenizer"]
        await ask(fleet, TEXT, count=MIN_ASKED)
        assert not await finds(fleet, "tokenizer-slow")
        for _ in range(MIN_ASKED):
            sidecar.send_signal(signal.SIGSTOP)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(ask(fleet, TEXT))
                    await asyncio.sleep(4 * SLOW_S)
                    sidecar.send_signal(signal.SIGCONT)
            finally:
                sidecar.send_signal(signal.SIGCONT)
        evidence = (await found(fleet, "tokenizer-slow"))["evidence"]
        assert evidence["mean_ms"] > evidence["expected_ms_below"]
        assert await fleet.metric("warmroute_tokenizer_wait_seconds_sum") > MIN_ASKED * SLOW_S


async def test_a_prefix_that_pins_one_endpoint_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PINNING)
    slow = ("--concurrency=1", "--decode-s-per-token=0.1")
    flags = (f"--config-file={config}",)
    async with faulty_fleet(tmp_path, engines=2, engine_flags=slow, router_flags=flags) as fleet:
        await ask(fleet, TEXT)
        # The filter that no profile uses; nothing else is wrong where only the configuration is.
        assert set(await findings(fleet)) == {"config-warning"}
        async with asyncio.TaskGroup() as group:
            requests = [
                group.create_task(ask(fleet, f"{TEXT} {number}", max_tokens=60))
                for number in range(24)
            ]
            # It is found before the last ones are here: all but the first have the prefix.
            await until(lambda: _pinned(fleet, len(requests)))
            finding = await found(fleet, "prefix-pins-endpoint")
            for request in requests:  # they would take long, one after the other
                request.cancel()
        evidence = finding["evidence"]
        assert evidence["requests_with_it"] >= 20
        assert evidence["its_load"] >= evidence["idlest_load"] + 4
        assert evidence["prefix_tokens"] >= 16


async def _pinned(fleet: Fleet, count: int) -> bool:
    """Whether so many requests are picked that hold the prefix."""
    decisions = (await fleet.get("/debug/decisions?limit=100"))["decisions"]
    return sum(bool(record["prefix_id"]) for record in decisions) >= count


async def test_gaps_orphans_late_and_missing_streams_are_named(alone: Fleet) -> None:
    gap, orphan, late, none = range(4)
    with zmq.asyncio.Context() as context:
        engines = Engines(alone, context, 4)
        try:
            async with router(alone, f"--config-file={alone.folder / 'config.yaml'}"):
                await until(lambda: subscribed(alone, 3), START_S)
                for number in (gap, orphan):
                    await engines.say(number, 0, stored([1], range(16)))
                await until(lambda: heard(alone, 2))
                for code in ("event-gaps", "parked-blocks", "events-joined-late"):
                    assert not await finds(alone, code), code
                await engines.say(gap, 3, stored([2], range(16)))
                await engines.say(orphan, 1, stored([2], range(16), parent_block_hash=99))
                await engines.say(late, 7, stored([1], range(16)))
                await until(lambda: heard(alone, 3))
                gaps = await found(alone, "event-gaps")
                assert gaps["about"] == engines.addresses[gap]
                assert (gaps["evidence"]["gaps"], gaps["evidence"]["missed"]) == (1, 2)
                assert "replay" in gaps["fix"]
                parked = await found(alone, "parked-blocks")
                assert parked["about"] == engines.addresses[orphan]
                assert parked["evidence"]["parked_blocks"] == 1
                joined = await found(alone, "events-joined-late")
                assert joined["evidence"]["last_seq"] == 7
                unreached = await found(alone, "event-stream-unreached")
                assert unreached["about"] == engines.addresses[none]
                never = await found(alone, "metrics-stale")
                assert never["evidence"]["age_s"] is None
        finally:
            engines.close()


async def _heard(fleet: Fleet) -> bool:
    return await fleet.metric("warmroute_kv_stream_messages_total") > 0
