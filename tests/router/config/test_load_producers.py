"""Who states what plugins need to know."""

from __future__ import annotations

from typing import Any

import pytest

from router.config.errors import ConfigError
from router.config.load import Config
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from tests.router.config.loading import (
    APPROX,
    OLDER,
    PRECISE,
    SCORER,
    config,
    plugins,
)


def names(built: Config) -> list[str]:
    return [producer.name for producer in built.producers]


def test_a_scorer_of_matches_is_served_by_estimates_where_no_producer_is_declared() -> None:
    built = config(plugins=plugins(SCORER))
    assert names(built) == ["token-producer", APPROX]
    named = {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": APPROX}}
    assert names(config(plugins=[named])) == ["token-producer", APPROX]
    assert names(config(plugins=[*plugins(PRECISE), named])) == ["token-producer", APPROX, PRECISE]


@pytest.mark.parametrize(
    ("declared", "estimated"), [((SCORER,), True), ((APPROX,), True), ((PRECISE, SCORER), False)]
)
def test_tokens_are_estimated_where_nobody_has_to_know_the_engine_s(
    declared: tuple[str, ...], estimated: bool
) -> None:
    tokens = config(plugins=plugins(*declared)).producers[0].value
    assert isinstance(tokens, TokenParameters)
    assert (tokens.estimate is not None) == estimated


@pytest.mark.parametrize(
    ("parameters", "others", "backend"),
    [
        ({}, (APPROX, SCORER), "estimate"),
        ({"modelName": "m"}, (SCORER,), "estimate"),
        ({}, (PRECISE, SCORER), None),
        ({}, (OLDER,), None),
        ({"sidecar": {}}, (APPROX, SCORER), "sidecar"),
    ],
    ids=["approximate", "made", "precise", "older-precise", "named"],
)
def test_a_declared_producer_of_tokens_without_a_backend_does_as_one_that_is_made(
    parameters: dict[str, Any], others: tuple[str, ...], backend: str | None
) -> None:
    declared = {"type": "token-producer", "parameters": parameters}
    tokens = config(plugins=[declared, *plugins(*others)]).producers[0].value
    assert isinstance(tokens, TokenParameters)
    named = [name for name in ("sidecar", "vllm", "estimate") if getattr(tokens, name) is not None]
    assert named == ([backend] if backend else [])
    assert tokens.model_name == parameters.get("modelName", "")


def test_a_declared_producer_of_matches_is_the_one_that_is_meant() -> None:
    assert names(config(plugins=plugins(SCORER, PRECISE))) == ["token-producer", PRECISE]


def test_of_several_producers_the_automatic_one_is_meant_and_runs_first() -> None:
    burst = "burst-prefix-cache-producer"
    mine = {"type": APPROX, "name": "mine"}
    built = config(plugins=[mine, *plugins(burst, SCORER, PRECISE, APPROX)])
    assert names(built) == ["token-producer", APPROX, "mine", PRECISE, burst]
    with pytest.raises(ConfigError, match="several producers state PrefixMatch"):
        config(plugins=plugins(burst, SCORER, PRECISE))


def test_a_producer_that_reads_matches_gets_them() -> None:
    built = config(plugins=plugins("p2p-source-producer", "queue-scorer"))
    assert names(built) == ["token-producer", APPROX, "p2p-source-producer"]


def test_requests_in_flight_are_counted_without_tokens_unless_output_is_estimated() -> None:
    load = "inflight-load-producer"
    assert names(config(plugins=plugins("active-request-scorer"))) == [load]
    estimating = {"type": load, "parameters": {"addEstimatedOutputTokens": True}}
    built = config(plugins=[*plugins("active-request-scorer"), estimating])
    assert names(built) == ["token-producer", load]


@pytest.mark.parametrize(
    "plugin",
    [
        {"type": "token-load-scorer"},
        {"type": "concurrency-detector", "parameters": {"concurrencyMode": "tokens"}},
        {"type": "concurrency-detector", "parameters": {"concurrencyMode": "hybrid"}},
    ],
    ids=["scorer", "tokens", "hybrid"],
)
def test_whoever_goes_by_tokens_in_flight_makes_sure_they_are_known(plugin: dict[str, Any]) -> None:
    built = config(plugins=[plugin, *plugins("queue-scorer")])
    assert names(built) == ["token-producer", "inflight-load-producer"]


def test_an_older_precise_scorer_brings_a_producer_that_follows_every_endpoint() -> None:
    older = {"type": OLDER, "parameters": {"tokenProcessorConfig": {"blockSize": 64}}}
    built = config(plugins=[older])
    (scorer,) = built.profiles["default"].scorers
    assert scorer.plugin == PrefixCacheScorer(prefix_match_info_producer_name=OLDER)
    assert names(built) == ["token-producer", OLDER]
    (prefix,) = (p.value for p in built.producers if isinstance(p.value, PrecisePrefixParameters))
    assert prefix.token_processor_config.tokens == 64
    assert built.notified == {OLDER}
    assert built.warnings == ()


@pytest.mark.parametrize("events", [{"zmqEndpoint": "tcp://*:5557"}, {"discoverPods": False}])
def test_an_older_precise_scorer_with_other_events_follows_nobody(events: dict[str, Any]) -> None:
    older = {"type": OLDER, "parameters": {"kvEventsConfig": events}}
    assert config(plugins=[older]).notified == frozenset()


def test_an_older_precise_scorer_reads_the_producer_that_is_declared() -> None:
    pool = {"indexerConfig": {"tokenizersPoolConfig": {"uds": {"socketFile": "/s"}}}}
    older = {"type": OLDER, "parameters": pool}
    built = config(plugins=[older, {"type": PRECISE, "name": "mine"}])
    (scorer,) = built.profiles["default"].scorers
    assert scorer.plugin == PrefixCacheScorer(prefix_match_info_producer_name="mine")
    assert names(built) == ["token-producer", "mine"]
