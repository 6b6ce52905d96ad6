from __future__ import annotations

from collections.abc import Mapping

import pytest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, Tokens
from router.producers.inflight import InFlightLoad
from router.telemetry import in_flight
from router.telemetry.in_flight import SHOWN_S, InFlightSeries
from router.telemetry.metrics import MAX_FAIRNESS_IDS, Metrics
from tests.support import make

A, B = "10.0.0.1:8000", "10.0.0.2:8000"
REQUESTS, TOKENS = "llm_d_epp_inflight_requests", "llm_d_epp_inflight_tokens"
TENANT = "x-llm-d-inference-fairness-id"


class Shown:
    """Two producers' series, and a clock that a test moves."""

    def __init__(self) -> None:
        self.first, self.second = InFlightLoad("first"), InFlightLoad("second")
        self.now = 100.0
        self.endpoints: list[Endpoint] = [make.endpoint(A, name="pod-a", namespace="ns")]
        self.series = InFlightSeries(
            lambda: self.endpoints,
            [self.first, self.second],
            Metrics(lambda _: True).account,
            lambda: self.now,
        )

    def values(self) -> dict[str, Mapping[tuple[str, ...], float]]:
        return {sample.name: sample.values for sample in self.series.samples()}


async def facts_of(load: InFlightLoad, tokens: int) -> Facts:
    facts = Facts()
    facts.put(Tokens(bytes(4 * tokens)), "tokens")
    await load.produce(make.request(), [make.endpoint(A), make.endpoint(B)], facts)
    return facts


async def test_requests_in_flight_are_told_by_producer_and_account() -> None:
    shown = Shown()
    facts = await facts_of(shown.first, 100)
    for tenant, priority in (("a", 0), ("a", 0), ("b", 2)):
        request = make.request(headers={TENANT: tenant}, priority=priority)
        shown.first.decided(request, facts, make.decision(A))
    shown.second.decided(make.request(), Facts(), make.decision(B))
    values = shown.values()
    assert values[REQUESTS] == {
        ("pod-a", "ns", "first", "a", "0"): 2,
        ("pod-a", "ns", "first", "b", "2"): 1,
        (B, "", "second", "default-flow", "0"): 1,
    }
    assert values[TOKENS] == {
        ("pod-a", "ns", "first", "a", "0"): 200,
        ("pod-a", "ns", "first", "b", "2"): 100,
    }
    assert values["warmroute_inflight_requests"] == {(A,): 3}
    assert values["warmroute_inflight_tokens"] == {(A,): 300}


def test_endpoints_of_one_name_are_added_up() -> None:
    shown = Shown()
    shown.endpoints = [make.endpoint(address, name="pod", namespace="ns") for address in (A, B)]
    for address in (A, B):
        shown.first.decided(make.request(), Facts(), make.decision(address))
    assert shown.values()[REQUESTS] == {("pod", "ns", "first", "default-flow", "0"): 2}


async def test_what_came_to_its_end_is_shown_as_zero_for_a_while() -> None:
    shown = Shown()
    lease = shown.first.decided(make.request(), await facts_of(shown.first, 10), make.decision(A))
    labels = ("pod-a", "ns", "first", "default-flow", "0")
    assert shown.values()[TOKENS] == {labels: 10}
    lease.ended()
    shown.now += SHOWN_S
    values = shown.values()
    assert (values[REQUESTS], values[TOKENS]) == ({labels: 0}, {labels: 0})
    shown.now += 1
    values = shown.values()
    assert (values[REQUESTS], values[TOKENS]) == ({}, {})


def test_series_at_zero_are_bounded_and_the_oldest_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight, "MAX_IDLE", 2)
    shown = Shown()
    for tenant in "abc":
        request = make.request(headers={TENANT: tenant})
        lease = shown.first.decided(request, Facts(), make.decision(A))
        shown.values()
        lease.ended()
    assert [labels[3] for labels in shown.values()[REQUESTS]] == ["b", "c"]


def test_accounts_without_end_are_told_as_one_and_none_is_lost() -> None:
    shown = Shown()
    leases = [
        shown.first.decided(
            make.request(headers={TENANT: f"tenant-{number}"}), Facts(), make.decision(A)
        )
        for number in range(MAX_FAIRNESS_IDS + 5)
    ]
    requests = shown.values()[REQUESTS]
    assert len(requests) == MAX_FAIRNESS_IDS + 1
    assert requests["pod-a", "ns", "first", "other", "0"] == 5
    assert sum(requests.values()) == len(leases)
    for lease in leases:
        lease.ended()
    assert sum(shown.values()[REQUESTS].values()) == 0
    assert shown.first.shares == {}
