from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from router.config.errors import ConfigError
from router.config.load import Config, load

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def config(flow_control: dict[str, Any], *types: str) -> Config:
    plugins = [{"type": kind} for kind in ("queue-scorer", *types)]
    fields = {"plugins": plugins, "flowControl": flow_control}
    return load(msgspec.json.encode(HEAD | fields).decode())


@pytest.mark.parametrize(
    "flow_control",
    [
        {"maxRequests": 5},
        {"defaultPriorityBand": {"fairnessPolicyRef": "round-robin-fairness-policy"}},
        {"defaultNegativePriorityBand": {"orderingPolicyRef": "edf-ordering-policy"}},
        {"priorityBands": [{"priority": 3, "orderingPolicyRef": "fcfs-ordering-policy"}]},
        {"usageLimitPolicyPluginRef": "static-usage-limit-policy"},
        {"enableEviction": True},
    ],
)
def test_what_asks_for_queues_is_inactive(flow_control: dict[str, Any]) -> None:
    (warning,) = config(flow_control).warnings
    assert warning.endswith("- at `$.flowControl`")


def test_nothing_is_told_of_an_empty_section() -> None:
    assert config({}).warnings == ()


@pytest.mark.parametrize(
    ("flow_control", "said"),
    [
        (
            {"usageLimitPolicyPluginRef": "static-usage-limit"},
            "'static-usage-limit' is no usage limit policy; did you mean"
            " 'static-usage-limit-policy'? - at `$.flowControl.usageLimitPolicyPluginRef`",
        ),
        (
            {"priorityBands": [{"priority": 1, "fairnessPolicyRef": "fcfs-ordering-policy"}]},
            "'fcfs-ordering-policy' is no fairness policy",
        ),
        (
            {"defaultPriorityBand": {"orderingPolicyRef": "queue-scorer"}},
            "at `$.flowControl.defaultPriorityBand.orderingPolicyRef`",
        ),
    ],
)
def test_a_reference_to_something_else_is_fatal(flow_control: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(flow_control)


def test_a_declared_policy_is_found_by_its_name() -> None:
    plugins = [{"type": "queue-scorer"}, {"type": "edf-ordering-policy", "name": "mine"}]
    fields = {
        "plugins": plugins,
        "flowControl": {"defaultPriorityBand": {"orderingPolicyRef": "mine"}},
    }
    assert load(msgspec.json.encode(HEAD | fields).decode()).warnings
