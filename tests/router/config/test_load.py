from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from router.config.builtin import BUILTIN
from router.config.errors import ConfigError
from router.config.load import Config, load
from router.config.notes import NoteKind
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def config(**fields: Any) -> Config:
    return load(yaml.safe_dump({**HEAD, **fields}, sort_keys=False))


def plugins(*types: str) -> list[dict[str, Any]]:
    return [{"type": type_} for type_ in types]


def profile(*refs: str, **weights: Any) -> list[dict[str, Any]]:
    members = [
        {"pluginRef": ref} | ({"weight": weights[ref]} if ref in weights else {}) for ref in refs
    ]
    return [{"name": "default", "plugins": members}]


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


PRECISE = "precise-prefix-cache-producer"
SCORER = "prefix-cache-scorer"
APPROX = "approx-prefix-cache-producer"
OLDER = "precise-prefix-cache-scorer"
NAMES_X = {"prefixMatchInfoProducerName": "x"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"kind": "Pod"}, "$.kind", id="wrong-kind"),
        pytest.param({"apiVersion": "v1"}, "$.apiVersion", id="wrong-version"),
        pytest.param({"plugin": []}, "unknown field `plugin`", id="unknown-top-level-key"),
        pytest.param(
            {"plugins": plugins("que-scorer")},
            "unknown plugin type 'que-scorer'; did you mean 'queue-scorer'?",
            id="unknown-type",
        ),
        pytest.param({"plugins": [{"name": "x"}]}, "$.plugins[0]", id="no-type"),
        pytest.param(
            {"plugins": plugins("queue-scorer", "queue-scorer")}, "$.plugins[1]", id="same-name"
        ),
        pytest.param(
            {"plugins": [{"type": PRECISE, "parameters": {"blockSizeToken": 64}}]},
            "unknown field `blockSizeToken`; known: indexerConfig, kvEventsConfig,"
            " speculativeIndexing, speculativeTTL, tokenProcessorConfig"
            " - at `$.plugins[0].parameters`",
            id="mistyped-parameter",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": PRECISE, "parameters": {"tokenProcessorConfig": {"blockSize": -1}}}
                ]
            },
            "$.plugins[0].parameters.tokenProcessorConfig.blockSize",
            id="bad-parameter",
        ),
        pytest.param(
            {"plugins": [{"type": PRECISE, "parameters": {"speculativeTTL": "soon"}}]},
            "$.plugins[0].parameters",
            id="bad-duration",
        ),
        pytest.param(
            {
                "plugins": [
                    {
                        "type": PRECISE,
                        "parameters": {"tokenProcessorConfig": {"blockSizeTokens": 10**20}},
                    }
                ]
            },
            "$.plugins[0].parameters.tokenProcessorConfig.blockSizeTokens",
            id="huge-block",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": "token-producer", "parameters": {"sidecar": {"timeout": "-5s"}}}
                ]
            },
            "$.plugins[0].parameters.sidecar",
            id="negative-duration",
        ),
        pytest.param(
            {"flowcontrol": {}}, "did you mean 'flowControl'? - at `$`", id="top-level-path"
        ),
        pytest.param(
            {"plugins": plugins("queue-scorer"), "schedulingProfiles": profile("other")},
            "undefined plugin 'other'; known: queue-scorer"
            " - at `$.schedulingProfiles[0].plugins[0].pluginRef`",
            id="undefined-reference",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": "max-score-picker"},
                    {"type": "max-score-picker", "name": "second"},
                ],
                "schedulingProfiles": profile("max-score-picker", "second"),
            },
            "second picker 'second' after 'max-score-picker'"
            " - at `$.schedulingProfiles[0].plugins[1]`",
            id="two-pickers",
        ),
        pytest.param(
            {
                "plugins": plugins("queue-scorer"),
                "schedulingProfiles": profile("queue-scorer") + profile("queue-scorer"),
            },
            "$.schedulingProfiles[1].name",
            id="same-profile-name",
        ),
        pytest.param(
            {
                "plugins": plugins("queue-scorer"),
                "schedulingProfiles": [
                    *profile("queue-scorer"),
                    {"name": "two", "plugins": [{"pluginRef": "queue-scorer"}]},
                ],
            },
            "single-profile-handler takes one profile",
            id="two-profiles",
        ),
        *(
            pytest.param(
                {
                    "plugins": plugins("queue-scorer"),
                    "schedulingProfiles": profile("queue-scorer", **{"queue-scorer": weight}),
                },
                "$.schedulingProfiles[0].plugins[0].weight",
                id=f"weight-{weight}",
            )
            for weight in (-1, "2", float("nan"), float("inf"))
        ),
        pytest.param(
            {
                "plugins": [
                    {
                        "type": "session-affinity-filter",
                        "parameters": {
                            "strategy": "session_id",
                            "sessionIdConfig": {"sources": [{"attribute": "user"}]},
                        },
                    }
                ]
            },
            "no producer states SessionId: declare session-id-producer, agent-identity"
            " - at `$.plugins[0]`",
            id="no-session-producer",
        ),
        pytest.param(
            {"plugins": [*plugins(SCORER), {"type": "token-producer", "name": APPROX}]},
            f"'{APPROX}' states no PrefixMatch: it is the name of another plugin",
            id="name-of-an-automatic-producer-taken",
        ),
        pytest.param(
            {
                "plugins": [
                    *plugins("active-request-scorer", "inflight-load-producer"),
                    {"type": "inflight-load-producer", "name": "other", "parameters": NAMES_X},
                ]
            },
            "no producer 'x' states PrefixMatch; declared: none - at `$.plugins[2].parameters`",
            id="producer-of-a-producer",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": PRECISE, "name": "mine"},
                    {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": PRECISE}},
                ]
            },
            f"no producer '{PRECISE}' states PrefixMatch; declared: mine",
            id="producer-of-another-name",
        ),
        pytest.param(
            {
                "plugins": plugins(PRECISE),
                "dataLayer": {"sources": [{"pluginRef": PRECISE}]},
            },
            "is no data source - at `$.dataLayer.sources[0].pluginRef`",
            id="no-source",
        ),
        pytest.param(
            {
                "plugins": plugins("metrics-data-source", PRECISE),
                "dataLayer": {
                    "sources": [
                        {"pluginRef": "metrics-data-source", "extractors": [{"pluginRef": PRECISE}]}
                    ]
                },
            },
            "cannot extract from 'metrics-data-source'; what can: core-metrics-extractor",
            id="wrong-extractor",
        ),
        pytest.param(
            {
                "plugins": plugins("queue-scorer"),
                "dataLayer": {"discovery": {"pluginRef": "queue-scorer"}},
            },
            "is no discovery - at `$.dataLayer.discovery.pluginRef`",
            id="no-discovery",
        ),
    ],
)
def test_a_mistake_is_fatal_and_names_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(**fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("kind: a\n\tb: c", "line 2"),
        ("a: [", "not valid YAML"),
        ("kind: a\nkind: b", "'kind' stands twice - at line 2"),
        ("- 1", "Expected `object`, got `array`"),
    ],
    ids=["empty", "tab", "open-list", "key-twice", "list"],
)
def test_text_that_is_no_configuration_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load(text)


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


def test_a_mistake_is_told_with_its_line() -> None:
    text = yaml.safe_dump({**HEAD, "plugins": plugins("queue-scorer", "que")}, sort_keys=False)
    with pytest.raises(ConfigError, match=r"at `\$\.plugins\[1\]\.type`, line 5$"):
        load(text)


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


def test_a_mistake_in_a_tokenizer_s_parameters_is_refused_with_its_path() -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        (
            {"estimate": {"image": {"mode": "x"}}},
            "at `$.plugins[0].parameters.estimate.image.mode`",
        ),
        ({"udsTokenizerConfig": {}}, "with udsTokenizerConfig - at `$.plugins[0].parameters`"),
        (
            {"modelName": "m", "udsTokenizerConfig": {"useTCP": True}},
            "at `$.plugins[0].parameters.udsTokenizerConfig`",
        ),
    ]
    for parameters, said in mistakes:
        tokens = {"type": "token-producer", "parameters": parameters}
        with pytest.raises(ConfigError, match=re.escape(said)):
            config(plugins=[tokens])


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
