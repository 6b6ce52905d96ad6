"""Mistakes in a configuration: each is refused, with its place."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from router.config.errors import ConfigError
from router.config.load import load
from tests.router.config.loading import (
    APPROX,
    HEAD,
    NAMES_X,
    PRECISE,
    SCORER,
    config,
    plugins,
    profile,
)


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
            "got 'soon' - at `$.plugins[0].parameters.speculativeTTL`",
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
            "got '-5s' - at `$.plugins[0].parameters.sidecar.timeout`",
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
            "no producer 'x' states PrefixMatch; declared: none"
            " - at `$.plugins[2].parameters.prefixMatchInfoProducerName`",
            id="producer-of-a-producer",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": PRECISE, "name": "mine"},
                    {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": PRECISE}},
                ]
            },
            f"no producer '{PRECISE}' states PrefixMatch; declared: mine"
            " - at `$.plugins[1].parameters.prefixMatchInfoProducerName`",
            id="producer-of-another-name",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": PRECISE},
                    {"type": SCORER, "parameters": {"prefixMatchInfoProducerName": PRECISE[:-1]}},
                ]
            },
            f"no producer '{PRECISE[:-1]}' states PrefixMatch; did you mean '{PRECISE}'?",
            id="mistyped-producer",
        ),
        pytest.param(
            {
                "plugins": [
                    {
                        "type": "disagg-profile-handler",
                        "parameters": {"deciders": {"prefill": "prefix-based-pd-decider"}},
                    },
                    {"type": "prefix-based-pd-decider", "parameters": NAMES_X},
                    *plugins("decode-filter"),
                ],
                "schedulingProfiles": [{"name": "decode"}, {"name": "prefill"}],
            },
            "no producer 'x' states PrefixMatch; declared: none"
            " - at `$.plugins[1].parameters.prefixMatchInfoProducerName`",
            id="producer-of-a-decider",
        ),
        pytest.param(
            {
                "plugins": [
                    {"type": "session-id-producer", "parameters": {"headerName": "x-s"}},
                    {
                        "type": "session-affinity-filter",
                        "parameters": {
                            "strategy": "session_id",
                            "sessionIdConfig": {
                                "sources": [{"attribute": "user", "producer": "session-id-produce"}]
                            },
                        },
                    },
                ]
            },
            "did you mean 'session-id-producer'?"
            " - at `$.plugins[1].parameters.sessionIdConfig.sources[0].producer`",
            id="producer-of-a-session",
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


def test_a_mistake_is_told_with_its_line() -> None:
    text = yaml.safe_dump({**HEAD, "plugins": plugins("queue-scorer", "que")}, sort_keys=False)
    with pytest.raises(ConfigError, match=r"at `\$\.plugins\[1\]\.type`, line 5$"):
        load(text)


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
