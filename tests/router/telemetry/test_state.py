from __future__ import annotations

import msgspec
import pytest

from indexer.budget import ENTRY_BYTES, STORED_BYTES
from router.extproc.stats import StreamStats
from router.pool.endpoint import EngineMetrics
from router.pool.outliers import Outliers
from router.producers.facts import Facts
from router.producers.inflight import InFlightLoad
from router.producers.prefix_parameters import Bounds
from router.producers.token_sidecar import SidecarClient
from router.producers.tokens import Missing
from router.telemetry.metrics import Metrics
from router.telemetry.state import State
from tests.router.producers.test_prefix import A, B, Fixture, removed, stored
from tests.support import make


class Found:
    """A discovery that left nothing out."""

    synced = True
    error: str | None = None
    warnings: tuple[str, ...] = ()


class Configured:
    """A configuration without anything to tell."""

    error: str | None = None
    warnings: tuple[str, ...] = ()
    reloads = 0
    failures = 0


def state_of(fixture: Fixture) -> tuple[State, SidecarClient, InFlightLoad]:
    sidecar, load = SidecarClient("unused", 1.0, 1000), InFlightLoad("load")
    found = Found()
    outliers = Outliers(lambda: 100.0)
    state = State(
        fixture.pool,
        outliers,
        found,
        StreamStats(),
        [sidecar],
        [fixture.prefix],
        [load],
        Configured(),
    )
    return state, sidecar, load


def test_what_is_degraded_is_named() -> None:
    fixture = Fixture()
    state, sidecar, _ = state_of(fixture)
    assert state.degraded() == [
        f"endpoint {A}: not scraped yet",
        f"endpoint {B}: not scraped yet",
        "tokenizer: not connected",
    ]
    sidecar.stats.connected = True
    sidecar.stats.hanging = True
    assert state.degraded()[-1] == "tokenizer: does not answer in time"
    sidecar.stats.hanging = False
    for address in (A, B):
        fixture.pool.scraped(address, EngineMetrics())
    assert state.degraded() == []
    for _ in range(3):
        fixture.pool.scrape_failed(B)
    fixture.announce(A, stored([1], range(16)))
    fixture.feeds[A].lost()
    assert state.degraded() == [
        f"endpoint {B}: does not answer scrapes",
        f"endpoint {A}: its event stream is lost",
    ]
    fixture.pool.replace([])
    assert state.degraded()[0] == "no endpoints"


def test_entries_that_were_left_out_are_named_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Found, "warnings", ("$.endpoints[1]: port 70000",))
    monkeypatch.setattr(Found, "error", "unreadable")
    state, _, _ = state_of(Fixture())
    assert state.degraded()[:2] == [
        "discovery: unreadable",
        "discovery: $.endpoints[1]: port 70000",
    ]
    metrics = Metrics(lambda _: True)
    metrics.watch(state.samples)
    assert metrics.registry.get_sample_value("warmroute_discovery_left_out") == 1


def test_the_description_is_json_and_tells_of_every_part() -> None:
    fixture = Fixture()
    state, sidecar, load = state_of(fixture)
    fixture.announce(A, stored([1, 2], range(32)))
    sidecar.stats.missing[Missing.TIMEOUT] += 2
    load.decided(make.request(), Facts(), make.decision(A))
    told = msgspec.json.decode(msgspec.json.encode(state.describe()))
    first = next(e for e in told["endpoints"] if e["address"] == A)
    assert (first["alive"], first["in_flight"], first["metrics"]) == (True, 1, None)
    (index,) = told["indexes"]
    holder = next(h for h in index["holders"] if h["holder"]["address"] == A)
    assert (holder["blocks"], holder["trust"]) == ({"gpu": 2}, "exact")
    feed = next(f for f in index["feeds"] if f["holder"]["address"] == A)
    assert (feed["stats"]["last_seq"], feed["models"]) == (0, ["m"])
    assert told["tokenizers"] == [{"connected": False, "tokenized": 0, "missing": {"timeout": 2}}]


def test_what_the_index_takes_stands_beside_what_it_may_take() -> None:
    fixture = Fixture(bounds=Bounds(4 * STORED_BYTES, 3 * STORED_BYTES))
    state, _, _ = state_of(fixture)
    fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    told = msgspec.json.decode(msgspec.json.encode(state.describe()))["indexes"][0]
    assert told["bounds"] == {
        "index_bytes": 4 * STORED_BYTES,
        "index_bytes_per_endpoint": 3 * STORED_BYTES,
    }
    taken = 3 * (ENTRY_BYTES["blocks"] + ENTRY_BYTES["names"])
    assert told["stats"]["bytes"] == taken
    (holder,) = [h for h in told["holders"] if h["holder"]["address"] == A]
    assert (holder["bytes"], holder["dropped_blocks"]) == (taken, 1)
    metrics = Metrics(lambda _: True)
    metrics.watch(state.samples)
    value = metrics.registry.get_sample_value
    assert value("warmroute_index_bytes", {"producer": "prefix"}) == taken
    assert value("warmroute_index_bytes_bound", {"producer": "prefix"}) == 4 * STORED_BYTES


def test_counters_of_the_parts_become_metrics() -> None:
    fixture = Fixture()
    state, sidecar, _ = state_of(fixture)
    metrics = Metrics(lambda _: True)
    metrics.watch(state.samples)
    fixture.announce(A, stored([1, 2], range(32)), removed(2), {"type": "Nonsense"})
    fixture.pool.scraped(A, EngineMetrics(waiting=7, prefix_hits=3.0, prefix_queries=9.0))
    sidecar.stats.missing[Missing.TIMEOUT] += 2
    sidecar.stats.connections, sidecar.stats.hanging = 3, True
    sidecar.stats.partial = 4

    def value(name: str, /, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    endpoint = {"model_server_endpoint": A}
    assert value("llm_d_epp_ready_endpoints", name="") == 2
    assert value("llm_d_epp_per_endpoint_queue_size", name="", **endpoint) == 7
    assert value("warmroute_engine_prefix_hits_total", **endpoint) == 3
    assert value("warmroute_untokenized_requests_total", reason="timeout") == 2
    assert value("warmroute_guess_confirmation_seconds_total", producer="prefix") == 0
    assert value("warmroute_tokenizer_connections_total") == 3
    assert value("warmroute_tokenizer_breaker_open") == 1
    assert value("warmroute_partial_requests_total") == 4
    assert value("warmroute_index_entries", producer="prefix", table="blocks") == 1
    parked = {"producer": "prefix", "rank": "0", **endpoint}
    assert value("warmroute_parked_blocks", **parked) == 0
    size = {"plugin_name": "prefix", "plugin_type": "precise-prefix-cache-producer"}
    assert value("llm_d_epp_prefix_indexer_size", **size) == 1
    rejected = value(
        "warmroute_kv_events_rejected_total", producer="prefix", reason="unknown_event"
    )
    assert rejected == 1


def test_a_file_that_is_not_in_force_is_named_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Configured, "error", "unknown plugin type")
    monkeypatch.setattr(Configured, "failures", 2)
    monkeypatch.setattr(Configured, "warnings", ("inactive",))
    state, _, _ = state_of(Fixture())
    assert "configuration: the file is not in force: unknown plugin type" in state.degraded()
    described = state.describe()
    assert described["config_error"] == "unknown plugin type"
    assert described["config_warnings"] == ["inactive"]
    samples = {sample.name: sample.values for sample in state.samples()}
    assert samples["warmroute_config_reloads"] == {("done",): 0.0, ("failed",): 2.0}
    assert samples["warmroute_config_warnings"] == {(): 1.0}


def test_endpoints_that_get_no_prefills_are_named() -> None:
    fixture = Fixture()
    outliers = Outliers(lambda: 100.0, scrapes_tell=False)
    state = State(
        fixture.pool,
        Outliers(lambda: 100.0),
        Found(),
        StreamStats(),
        [],
        [],
        [],
        Configured(),
        outliers,
    )
    for _ in range(3):
        outliers.came(A, failed=True)
    assert f"endpoint {A}: kept out of prefill, its last prefills failed" in state.degraded()
