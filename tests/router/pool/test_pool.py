"""The pool keeps what is known of an endpoint as long as it is the same endpoint."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from router.pool.endpoint import Endpoint, EngineMetrics, KvEvents, ServedModels
from router.pool.pool import DEAD_AFTER, Pool
from tests.support import make


class Recorder:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.endpoints: dict[str, Endpoint] = {}

    def added(self, endpoint: Endpoint) -> None:
        assert endpoint.address not in self.endpoints
        self.endpoints[endpoint.address] = endpoint
        self.told.append(("added", endpoint.name))

    def removed(self, endpoint: Endpoint) -> None:
        del self.endpoints[endpoint.address]
        self.told.append(("removed", endpoint.name))

    def changed(self, endpoint: Endpoint) -> None:
        assert endpoint.address in self.endpoints
        self.endpoints[endpoint.address] = endpoint
        self.told.append(("changed", endpoint.name))

    def restarted(self, endpoint: Endpoint) -> None:
        assert endpoint.address in self.endpoints
        self.told.append(("restarted", endpoint.name))

    def died(self, endpoint: Endpoint) -> None:
        assert not endpoint.alive
        self.told.append(("died", endpoint.name))

    def revived(self, endpoint: Endpoint) -> None:
        assert endpoint.alive
        self.told.append(("revived", endpoint.name))


A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def endpoint(
    name: str = "a",
    address: str = A,
    labels: dict[str, str] | None = None,
    kv_events: tuple[KvEvents, ...] = (),
) -> Endpoint:
    return Endpoint(name=name, address=address, labels=labels or {}, kv_events=kv_events)


def metrics(start: float | None = None, waiting: int = 0) -> EngineMetrics:
    return EngineMetrics(waiting=waiting, process_start=start)


def listened(*endpoints: Endpoint) -> tuple[Pool, Recorder]:
    """A pool and a listener that forgot what it was told at first."""
    pool, recorder = Pool(endpoints), Recorder()
    pool.listen(recorder)
    recorder.told.clear()
    return pool, recorder


def test_the_snapshot_is_in_the_order_of_discovery() -> None:
    pool = Pool([endpoint("b", B), endpoint("a", A)])
    assert [e.name for e in pool.snapshot()] == ["b", "a"]


def test_the_snapshot_is_the_same_object_until_something_changes() -> None:
    pool = Pool([endpoint()])
    before = pool.snapshot(), pool.candidates()
    assert (pool.snapshot(), pool.candidates()) == before
    assert pool.snapshot() is before[0]
    pool.scraped(A, metrics(waiting=4))
    assert [e.metrics for e in before[0]] == [None]
    assert [e.metrics for e in pool.snapshot()] == [metrics(waiting=4)]


def test_an_endpoint_that_stays_keeps_what_its_engine_said() -> None:
    pool = Pool([endpoint()])
    pool.scraped(A, metrics(waiting=4))
    pool.served(A, ServedModels(names=("tiny",)))
    pool.replace([endpoint(labels={"zone": "x"}), endpoint("b", B)])
    kept = pool.get(A)
    assert kept == msgspec.structs.replace(
        endpoint(labels={"zone": "x"}),
        metrics=metrics(waiting=4),
        models=ServedModels(names=("tiny",)),
    )


@pytest.mark.parametrize(
    "other",
    [
        endpoint("other"),
        msgspec.structs.replace(endpoint(), namespace="elsewhere"),
    ],
    ids=["name", "namespace"],
)
def test_another_endpoint_on_the_same_address_starts_afresh(other: Endpoint) -> None:
    pool, recorder = listened(endpoint())
    pool.scraped(A, metrics(start=1.0))
    pool.served(A, ServedModels(names=("tiny",)))
    pool.replace([other])
    assert pool.get(A) == other
    assert pool.resolve_model("tiny").names == ("tiny",)
    assert recorder.told == [("removed", "a"), ("added", other.name)]


def test_an_endpoint_that_left_and_came_back_starts_afresh() -> None:
    pool = Pool([endpoint()])
    pool.scraped(A, metrics())
    pool.replace([])
    pool.replace([endpoint()])
    assert pool.get(A) == endpoint()


def test_what_comes_for_an_address_that_left_is_ignored() -> None:
    pool, recorder = listened()
    pool.scraped(A, metrics())
    pool.scrape_failed(A)
    pool.served(A, ServedModels())
    assert (pool.snapshot(), pool.get(A), recorder.told) == ((), None, [])


def test_listeners_learn_of_what_came_changed_and_left() -> None:
    pool, recorder = listened(endpoint("a", A))
    other = Recorder()
    pool.listen(other)
    assert other.told == [("added", "a")]
    pool.replace([endpoint("a", A), endpoint("b", B)])
    pool.replace([endpoint("a", A, kv_events=(KvEvents(endpoint="tcp://h:1"),))])
    assert recorder.told == [("added", "b"), ("removed", "b"), ("changed", "a")]
    assert other.told[1:] == recorder.told


def test_a_listener_sees_the_pool_as_it_is_after_the_change() -> None:
    pool = Pool()
    seen: list[tuple[Endpoint, ...]] = []

    class Looker(Recorder):
        def added(self, endpoint: Endpoint) -> None:
            seen.append(pool.snapshot())

    pool.listen(Looker())
    pool.replace([endpoint()])
    assert seen == [(endpoint(),)]


def test_the_same_discovery_again_tells_nobody_anything() -> None:
    pool, recorder = listened(endpoint())
    pool.scraped(A, metrics())
    pool.replace([endpoint()])
    assert recorder.told == []


def test_a_listener_that_unregistered_is_told_no_more() -> None:
    pool, recorder = listened()
    pool.unlisten(recorder)
    pool.replace([endpoint()])
    assert recorder.told == []


def test_a_new_process_start_is_a_restart() -> None:
    pool, recorder = listened(endpoint())
    pool.scraped(A, metrics(start=1.0))
    pool.scraped(A, metrics(start=1.0))
    assert recorder.told == []
    pool.scraped(A, metrics(start=2.0))
    assert recorder.told == [("restarted", "a")]


def test_a_restart_is_seen_across_failures_and_pages_without_a_start() -> None:
    pool, recorder = listened(endpoint())
    pool.scraped(A, metrics(start=1.0))
    pool.scraped(A, metrics(start=None))
    for _ in range(DEAD_AFTER):
        pool.scrape_failed(A)
    pool.scraped(A, metrics(start=2.0))
    assert recorder.told == [("died", "a"), ("revived", "a"), ("restarted", "a")]


def test_three_failures_in_a_row_end_a_candidacy_and_one_success_restores_it() -> None:
    pool = Pool([endpoint("a", A), endpoint("b", B)])
    pool.scraped(A, metrics(waiting=4))
    for failures in range(1, DEAD_AFTER + 1):
        assert [e.name for e in pool.candidates()] == ["a", "b"], failures
        pool.scrape_failed(A)
    assert [e.name for e in pool.candidates()] == ["b"]
    assert [(e.name, e.metrics) for e in pool.snapshot()] == [
        ("a", metrics(waiting=4)),
        ("b", None),
    ]
    pool.scraped(A, metrics())
    assert [e.name for e in pool.candidates()] == ["a", "b"]


def test_failures_that_are_not_in_a_row_do_not_add_up() -> None:
    pool = Pool([endpoint()])
    for _ in range(DEAD_AFTER):
        pool.scraped(A, metrics())
        pool.scrape_failed(A)
    assert pool.candidates() == pool.snapshot()


def test_an_endpoint_that_was_never_scraped_stays_a_candidate() -> None:
    pool = Pool([endpoint()])
    for _ in range(DEAD_AFTER + 1):
        pool.scrape_failed(A)
    assert pool.candidates() == (endpoint(),)


def test_a_dead_endpoint_stays_dead_when_discovery_repeats_it() -> None:
    pool = Pool([endpoint()])
    pool.scraped(A, metrics())
    for _ in range(DEAD_AFTER):
        pool.scrape_failed(A)
    pool.replace([endpoint(labels={"zone": "x"})])
    assert pool.candidates() == ()


def test_what_failed_the_last_scrape_is_known_until_one_succeeds() -> None:
    pool = Pool([endpoint()])
    before = pool.snapshot()
    pool.scrape_failed(A, "timeout")
    failed = pool.snapshot()
    assert (before[0].scrape_fault, failed[0].scrape_fault) == ("", "timeout")
    pool.scrape_failed(A, "timeout")
    assert pool.snapshot() is failed
    pool.replace([endpoint(labels={"zone": "x"})])
    assert pool.snapshot()[0].scrape_fault == "timeout"
    pool.scraped(A, metrics())
    assert pool.snapshot()[0].scrape_fault == ""


def test_model_names_follow_what_the_engines_serve() -> None:
    pool = Pool([endpoint("a", A), endpoint("b", B)])
    assert pool.resolve_model("alias").names == ("alias",)
    pool.served(A, ServedModels(names=("tiny", "alias"), adapters={"sql": "tiny"}))
    assert pool.resolve_model("alias").names == ("tiny", "alias")
    assert pool.resolve_model("sql").adapter == "sql"
    pool.replace([endpoint("b", B)])
    assert pool.resolve_model("alias").names == ("alias",)


def test_an_adapter_is_served_where_it_is_listed_as_lists_change() -> None:
    pool = Pool([endpoint(), endpoint("b", B)])
    assert pool.serving("sql") == pool.candidates()
    for address in (A, B):
        pool.served(address, ServedModels(names=("tiny",)))
    pool.served(B, ServedModels(names=("tiny",), adapters={"sql": "tiny"}))
    assert [e.name for e in pool.serving("sql")] == ["b"]
    assert pool.serving("tiny") == pool.candidates()
    pool.scraped(B, metrics())
    for _ in range(DEAD_AFTER):
        pool.scrape_failed(B)
    assert pool.serving("sql") == ()
    pool.replace([endpoint()])
    assert pool.serving("sql") == pool.candidates()


def test_model_names_are_worked_out_once_until_the_models_change() -> None:
    pool = Pool([endpoint()])
    pool.served(A, ServedModels(names=("tiny",)))
    table = pool.models()
    pool.scraped(A, metrics())
    pool.served(A, ServedModels(names=("tiny",)))
    assert pool.models() is table
    pool.served(A, ServedModels(names=("tiny", "alias")))
    assert pool.models() is not table


_names, _addresses = st.sampled_from("abc"), st.sampled_from([A, B, "[::1]:8000"])
_endpoints = st.lists(
    st.builds(endpoint, _names, _addresses, st.dictionaries(st.just("zone"), _names, max_size=1)),
    unique_by=lambda e: e.address,
)


class PoolMachine(RuleBasedStateMachine):
    """Whatever happens, a listener can tell from its calls alone which endpoints there are."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.recorder = listened()

    @rule(endpoints=_endpoints)
    def replace(self, endpoints: list[Endpoint]) -> None:
        self.pool.replace(endpoints)
        assert [e.address for e in self.pool.snapshot()] == [e.address for e in endpoints]

    @rule(address=_addresses, start=st.sampled_from([None, 1.0, 2.0]))
    def scraped(self, address: str, start: float | None) -> None:
        self.pool.scraped(address, metrics(start=start))

    @rule(address=_addresses)
    def scrape_failed(self, address: str) -> None:
        self.pool.scrape_failed(address)

    @rule(address=_addresses, name=_names)
    def served(self, address: str, name: str) -> None:
        self.pool.served(address, ServedModels(names=(name,)))

    @invariant()
    def the_listener_knows_the_endpoints(self) -> None:
        def discovered(e: Endpoint) -> tuple[object, ...]:
            return e.address, e.name, e.labels

        told = sorted(map(repr, map(discovered, self.recorder.endpoints.values())))
        assert told == sorted(map(repr, map(discovered, self.pool.snapshot())))

    @invariant()
    def candidates_are_those_alive_in_order(self) -> None:
        alive = tuple(e for e in self.pool.snapshot() if e.alive)
        assert self.pool.candidates() == alive
        assert all(e.alive or e.metrics is not None for e in self.pool.snapshot())


TestPoolMachine = PoolMachine.TestCase


def test_attributes_are_stated_by_key_and_void_where_they_are_stated_no_more() -> None:
    pool = Pool([make.endpoint("a:1")])
    pool.attributed("a:1", {"Load": 1.0, "Power": 2.0}, {"Load", "Power"})
    pool.attributed("a:1", {"GPUUtilization": 0.5}, {"GPUUtilization"})
    pool.attributed("a:1", {"Load": 3.0}, {"Load", "Power"})
    assert pool.snapshot()[0].attributes == {"GPUUtilization": 0.5, "Load": 3.0}
    pool.attributed("gone:1", {"Load": 1.0}, {"Load"})


def test_an_endpoint_that_stays_keeps_what_extractors_said_of_it() -> None:
    pool = Pool([msgspec.structs.replace(endpoint(), attributes={"GPUUtilization": 0.5})])
    pool.replace([endpoint(labels={"zone": "x"})])
    kept = pool.get(A)
    assert kept is not None
    assert kept.attributes == {"GPUUtilization": 0.5}
