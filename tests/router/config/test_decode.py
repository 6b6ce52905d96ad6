from __future__ import annotations

import re
from typing import Any

import pytest

from router.config.decode import about_gates, decode, gates
from router.config.errors import ConfigError
from router.config.notes import NoteKind
from router.config.text import parse as yaml_parse

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}

EVERYTHING: dict[str, Any] = {
    "featureGates": ["flowControl"],
    "plugins": [{"type": "a", "name": "b", "parameters": {"c": 1}}],
    "schedulingProfiles": [{"name": "p", "plugins": [{"pluginRef": "b", "weight": 2}]}],
    "dataLayer": {
        "injectDefaults": False,
        "sources": [{"pluginRef": "s", "extractors": [{"pluginRef": "e"}]}],
        "discovery": {"pluginRef": "d"},
        "peerDiscovery": {"pluginRef": "d"},
        "crossReplicaSyncerPluginRef": "s",
        "crossReplicaSyncInterval": "1s",
    },
    "flowControl": {
        "maxBytes": "1Gi",
        "maxRequests": 5000,
        "defaultRequestTTL": "0s",
        "noEndpointRequestTTL": "1m",
        "defaultPriorityBand": {"maxBytes": "1G", "fairnessPolicyRef": "f"},
        "defaultNegativePriorityBand": {"maxRequests": "10"},
        "priorityBands": [{"priority": 1, "orderingPolicyRef": "o"}, {"priority": -1}],
        "usageLimitPolicyPluginRef": "u",
        "saturationDetector": {"pluginRef": "x"},
        "enableEviction": True,
    },
    "requestHandler": {"parsers": [{"pluginRef": "r"}]},
    "saturationDetector": {"pluginRef": "x"},
    "parser": {"pluginRef": "r"},
}


def test_every_field_of_the_schema_is_known() -> None:
    assert decode(HEAD | EVERYTHING).flow_control.priority_bands[1].priority == -1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"flowControl": {"maxBytes": -1}}, "maxBytes must be non-negative, got -1"),
        ({"flowControl": {"maxRequests": "x"}}, "got 'x' - at `$.flowControl.maxRequests`"),
        (
            {"flowControl": {"defaultRequestTTL": "soon"}},
            "got 'soon' - at `$.flowControl.defaultRequestTTL`",
        ),
        (
            {"flowControl": {"priorityBands": [{"priority": 1}, {"priority": 1}]}},
            "duplicate priority level 1 in priorityBands - at `$.flowControl`",
        ),
        ({"flowControl": {"priorityBands": [{}]}}, "missing required field `priority`"),
        (
            {"dataLayer": {"crossReplicaSyncInterval": "x"}},
            "got 'x' - at `$.dataLayer.crossReplicaSyncInterval`",
        ),
        ({"dataLayer": {"source": []}}, "did you mean 'sources'? - at `$.dataLayer`"),
        ({"apiVersion": "llm-d.ai/v1alpha2"}, "did you mean 'llm-d.ai/v1alpha1'?"),
        ({"plugins": [{"type": ""}]}, "at `$.plugins[0].type`"),
    ],
)
def test_a_wrong_value_is_told_with_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        decode(HEAD | fields)


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ([], (False, True)),
        (["flowControl"], (True, True)),
        (["flowControl=false", "haPopulateNonLeaderDatastore = F"], (False, False)),
        (["flowControl=TRUE"], (True, True)),
        (["flowControl=0", "flowControl=1"], (True, True)),
    ],
)
def test_gates_are_open_or_not(given: list[str], opened: tuple[bool, bool]) -> None:
    assert tuple(gates(decode(HEAD | {"featureGates": given})).values()) == opened


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("flowcontrol", "unknown feature gate 'flowcontrol'; did you mean 'flowControl'?"),
        ("flowControl=maybe", "expected flowControl=true or flowControl=false"),
        ("flowControl=", "expected flowControl=true or flowControl=false"),
    ],
)
def test_a_wrong_gate_is_fatal(gate: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said) + r".* - at `\$\.featureGates\[0\]`"):
        gates(decode(HEAD | {"featureGates": [gate]}))


def test_a_gate_that_asks_for_what_there_is_not_is_inactive() -> None:
    (note,) = about_gates({"flowControl": True, "haPopulateNonLeaderDatastore": True})
    assert (note.kind, note.text.partition(":")[0]) == (
        NoteKind.INACTIVE,
        "flowControl=true changes nothing",
    )


def test_amounts_may_be_written_as_numbers_of_any_kind() -> None:
    data = yaml_parse("flowControl: {maxBytes: 1e9, maxRequests: 5000}")
    assert isinstance(data, dict)
    given = decode(HEAD | data).flow_control
    assert (given.max_bytes, given.max_requests) == (1e9, 5000)
