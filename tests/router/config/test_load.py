"""A configuration's text becomes what runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.config.builtin import BUILTIN
from router.config.load import load
from router.config.notes import NoteKind
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from tests.router.config.loading import (
    HEAD,
    OLDER,
    PRECISE,
    SCORER,
    config,
    plugins,
    profile,
)


def test_the_built_in_configuration_is_what_the_documentation_says() -> None:
    built = load(BUILTIN)
    (only,) = built.profiles.values()
    assert {scorer.name: scorer.weight for scorer in only.scorers} == {
        "prefix-cache-scorer": 3,
        "queue-scorer": 2,
        "kv-cache-utilization-scorer": 2,
        "active-request-scorer": 2,
    }
    assert only.picker == MaxScorePicker()
    assert [producer.type for producer in built.producers] == [
        "token-producer",
        "precise-prefix-cache-producer",
        "inflight-load-producer",
    ]
    (prefix,) = (p.value for p in built.producers if isinstance(p.value, PrecisePrefixParameters))
    assert prefix.speculative_indexing
    assert built.notified == {"precise-prefix-cache-producer"}
    assert built.warnings == ()


def test_json_is_read_too() -> None:
    text = msgspec.json.encode({**HEAD, "plugins": plugins("queue-scorer")}).decode()
    assert load(text).profiles["default"].scorers[0].name == "queue-scorer"


def test_the_older_group_is_accepted() -> None:
    assert config(
        apiVersion="inference.networking.x-k8s.io/v1alpha1", plugins=plugins("queue-scorer")
    )


def test_without_profiles_one_holds_everything_in_the_order_of_the_file() -> None:
    built = config(plugins=plugins("max-score-picker", "decode-filter", "queue-scorer"))
    (only,) = built.profiles.values()
    assert [f.name for f in only.filters] == ["decode-filter"]
    assert [(s.name, s.weight) for s in only.scorers] == [("queue-scorer", 1.0)]


def test_a_picker_listed_first_and_missing_weights_are_fine() -> None:
    built = config(
        plugins=plugins("max-score-picker", "queue-scorer", "active-request-scorer"),
        schedulingProfiles=profile(
            "max-score-picker", "queue-scorer", "active-request-scorer", **{"queue-scorer": 2.5}
        ),
    )
    scorers = built.profiles["default"].scorers
    assert [(s.name, s.weight) for s in scorers] == [
        ("queue-scorer", 2.5),
        ("active-request-scorer", 1.0),
    ]


def test_a_profile_without_a_picker_gets_the_declared_one() -> None:
    built = config(
        plugins=[
            {"type": "queue-scorer"},
            {"type": "max-score-picker", "parameters": {"maxNumOfEndpoints": 3}},
        ],
        schedulingProfiles=profile("queue-scorer"),
    )
    assert built.profiles["default"].picker == MaxScorePicker(max_num_of_endpoints=3)


def test_what_scorers_need_is_produced_without_asking() -> None:
    built = config(plugins=plugins("active-request-scorer", "precise-prefix-cache-producer"))
    assert [producer.type for producer in built.producers] == [
        "token-producer",
        "precise-prefix-cache-producer",
        "inflight-load-producer",
    ]


def test_a_producer_is_found_by_its_name() -> None:
    built = config(
        plugins=[
            {"type": "precise-prefix-cache-producer", "name": "mine"},
            {"type": "prefix-cache-scorer", "parameters": {"prefixMatchInfoProducerName": "mine"}},
        ]
    )
    scorer = built.profiles["default"].scorers[0].plugin
    assert scorer == PrefixCacheScorer(prefix_match_info_producer_name="mine")


def test_what_has_no_effect_is_a_warning() -> None:
    built = config(
        plugins=plugins("queue-scorer", "decode-filter", PRECISE),
        schedulingProfiles=profile("queue-scorer"),
        featureGates=["flowControl"],
    )
    assert [warning.partition(" - at ")[2] for warning in built.warnings] == [
        "`$.featureGates`",
        "`$.plugins[1]`",
        "`$.plugins[2]`",
    ]


def test_members_of_a_profile_that_can_do_nothing_there_are_warned_of() -> None:
    built = config(
        plugins=[*plugins("queue-scorer", "max-score-picker", "metrics-data-source")],
        schedulingProfiles=profile(
            "queue-scorer", "max-score-picker", "metrics-data-source", **{"max-score-picker": 2}
        ),
    )
    assert [str(note) for note in built.notes if note.kind is NoteKind.WARNING] == [
        "'max-score-picker' is no scorer: its weight has no effect"
        " - at `$.schedulingProfiles[0].plugins[1]`",
        "'metrics-data-source' is no filter, scorer or picker: no part of a profile"
        " - at `$.schedulingProfiles[0].plugins[2]`",
    ]


def test_a_block_size_that_no_engine_has_is_warned_of() -> None:
    parameters = {
        "tokenProcessorConfig": {"blockSizeTokens": 5},
        "kvEventsConfig": {"zmqEndpoint": "tcp://0.0.0.0:5557"},
    }
    (warning,) = config(plugins=[{"type": PRECISE, "parameters": parameters}]).warnings
    assert "blocks of 5 tokens" in warning


def test_ids_that_no_engine_computes_can_never_match() -> None:
    tokens: dict[str, Any] = {"type": "token-producer", "parameters": {"estimate": {}}}
    built = config(
        plugins=[tokens, *plugins("queue-scorer", PRECISE)],
        schedulingProfiles=profile("queue-scorer"),
    )
    assert any(f"'{PRECISE}' can never match" in warning for warning in built.warnings)


def test_the_data_layer_is_read() -> None:
    built = config(
        plugins=[
            {"type": "file-discovery", "parameters": {"path": "/etc/endpoints.yaml"}},
            {"type": "metrics-data-source", "parameters": {"interval": "250ms", "port": 9100}},
            *plugins("core-metrics-extractor", "endpoint-notification-source", PRECISE),
        ],
        dataLayer={
            "discovery": {"pluginRef": "file-discovery"},
            "sources": [
                {
                    "pluginRef": "metrics-data-source",
                    "extractors": [{"pluginRef": "core-metrics-extractor"}],
                },
                {
                    "pluginRef": "endpoint-notification-source",
                    "extractors": [{"pluginRef": PRECISE}],
                },
            ],
        },
    )
    assert built.discovery is not None
    assert built.discovery.path == "/etc/endpoints.yaml"
    assert built.data.metrics is not None
    assert (built.data.metrics.interval, built.data.metrics.port) == ("250ms", 9100)
    assert built.notified == {PRECISE}


def test_plugins_that_remember_are_told_of_picks_and_keep_what_they_were_built_from() -> None:
    built = config(
        plugins=[
            {"type": "no-hit-lru-scorer", "parameters": {"lruSize": 2}},
            *plugins("session-affinity-filter", "session-affinity-scorer", "queue-scorer"),
        ]
    )
    (profile_,) = built.profiles.values()
    remembering = [f.plugin for f in profile_.filters] + [s.plugin for s in profile_.scorers[:2]]
    assert len(remembering) == 3
    assert {id(p) for p in built.followers} == {id(p) for p in remembering}


def test_what_follows_endpoints_by_itself_may_be_wired_to_their_source_too() -> None:
    followers = ("inflight-load-producer", "mm-embeddings-cache-producer", OLDER)
    extractors = [{"pluginRef": follower} for follower in followers]
    source = {"pluginRef": "endpoint-notification-source", "extractors": extractors}
    built = config(
        plugins=plugins("endpoint-notification-source", *followers), dataLayer={"sources": [source]}
    )
    assert built.notified == set(followers)


@pytest.mark.parametrize(
    ("decides_by", "scored_by", "warned"),
    [(PRECISE, PRECISE, False), ("", PRECISE, True), (PRECISE, "", True), ("", "", False)],
)
def test_a_decider_that_goes_by_other_matches_than_the_profiles_is_warned_of(
    decides_by: str, scored_by: str, warned: bool
) -> None:
    decider = {"nonCachedTokens": 16, "prefixMatchInfoProducerName": decides_by}
    built = config(
        plugins=[
            {"type": PRECISE, "parameters": {"kvEventsConfig": {"zmqEndpoint": "tcp://*:5557"}}},
            {"type": "approx-prefix-cache-producer"},
            {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": scored_by}},
            {"type": "prefix-based-pd-decider", "parameters": decider},
            {
                "type": "disagg-profile-handler",
                "parameters": {"deciders": {"prefill": "prefix-based-pd-decider"}},
            },
        ],
        schedulingProfiles=[
            {"name": name, "plugins": [{"pluginRef": SCORER}]} for name in ("prefill", "decode")
        ],
    )
    told = [w for w in built.warnings if "decides by the matches of" in w]
    assert len(told) == warned
