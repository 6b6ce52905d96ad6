from __future__ import annotations

import re
from typing import Any

import pytest

from router.config.errors import ConfigError
from router.config.load import Config
from router.config.notes import NoteKind
from tests.router.config.loading import config, plugins

LESS = {"type": "threshold", "threshold": {"operator": "LessThan", "value": 1}}
LINEAR = {"type": "linear_lower_is_better"}
CUSTOM = {
    "type": "core-metrics-extractor",
    "parameters": {
        "engineConfigs": [
            {"name": "vllm", "customMetrics": [{"attributeKey": "Mine", "metricSpec": "mine"}]}
        ]
    },
}
GPUS = {
    "sources": [{"pluginRef": "dcgm-data-source", "extractors": [{"pluginRef": "dcgm-extractor"}]}]
}


def one(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"type": kind, "parameters": parameters}


def warned(loaded: Config) -> list[str]:
    return [str(note) for note in loaded.notes if note.kind is NoteKind.WARNING]


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (
            one("topology-affinity-filter", topologyProducerName="topology-extracter"),
            "there is no 'topology-extracter'; did you mean 'topology-extractor'?"
            " - at `$.plugins[0].parameters.topologyProducerName`",
        ),
        (
            one("topology-affinity-scorer", topologyProducerName="x"),
            "$.plugins[0].parameters.topologyProducerName",
        ),
        (
            one("endpoint-attribute-filter", attribute="a", producer="x", algorithm=LESS),
            "known: core-metrics-extractor - at `$.plugins[0].parameters.producer`",
        ),
        (
            one(
                "endpoint-attribute-scorer",
                attributeKey="a",
                producer="dcgm-extractor",
                algorithm=LINEAR,
            ),
            "there is no 'dcgm-extractor'; declare it in plugins"
            " - at `$.plugins[0].parameters.producer`",
        ),
        (
            one("session-affinity-filter", profileName="defalt"),
            "did you mean 'default'? - at `$.plugins[0].parameters.profileName`",
        ),
        (
            one("session-affinity-scorer", profileName="decode"),
            "known: default - at `$.plugins[0].parameters.profileName`",
        ),
        (
            one("p2p-source-producer", prefillProfileName="prefil"),
            "known: default - at `$.plugins[0].parameters.prefillProfileName`",
        ),
    ],
)
def test_a_name_that_nobody_has_is_refused(plugin: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(plugins=[plugin])


@pytest.mark.parametrize(
    "plugin",
    [
        one("topology-affinity-filter", topologyProducerName="topology-extractor"),
        one(
            "endpoint-attribute-filter",
            attribute="WaitingQueueSize",
            producer="core-metrics-extractor",
            algorithm=LESS,
        ),
        one(
            "endpoint-attribute-filter",
            attribute="WaitingQueueSize",
            producer="multicluster-metrics-extractor",
            algorithm=LESS,
        ),
        one("session-affinity-filter", profileName="default"),
        one("p2p-source-producer"),
    ],
)
def test_a_name_that_somebody_has_passes(plugin: dict[str, Any]) -> None:
    config(plugins=[plugin, *plugins("multicluster-metrics-extractor")])


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("WaitingQueueSiz", "did you mean 'WaitingQueueSize'?"),
        ("GPUUtilisation", "did you mean 'GPUUtilization'?"),
        ("GPUUtilization", "no dcgm-data-source is among the sources"),
    ],
)
def test_an_attribute_that_nobody_states_is_a_warning(key: str, said: str) -> None:
    asking = [
        one("endpoint-attribute-filter", attribute=key, algorithm=LESS),
        one("endpoint-attribute-scorer", attributeKey=key, algorithm=LINEAR),
    ]
    first, second = warned(config(plugins=asking))
    assert said in first
    assert "$.plugins[0].parameters.attribute`" in first
    assert "$.plugins[1].parameters.attributeKey`" in second


def test_attributes_that_are_stated_are_no_warning() -> None:
    custom = [CUSTOM, one("endpoint-attribute-scorer", attributeKey="Mine", algorithm=LINEAR)]
    gpus = one("endpoint-attribute-filter", attribute="GPUUtilization", algorithm=LESS)
    sources = plugins("dcgm-data-source", "dcgm-extractor")
    assert warned(config(plugins=custom)) == []
    assert warned(config(plugins=[gpus, *sources], dataLayer=GPUS)) == []
