from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from router.config.errors import ConfigError
from router.config.load import load
from router.config.nulls import left_out
from tests.router.config.loading import HEAD, config, plugins


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    max_value: int = 0


class Outer(msgspec.Struct, frozen=True, rename="camel"):
    inner: Inner = Inner()
    conditions: list[Inner] | None = None
    pairs: tuple[Inner, ...] = ()
    labels: dict[str, str] = {}


@pytest.mark.parametrize(
    ("data", "left"),
    [
        ({"inner": None, "conditions": None}, {}),
        ({"inner": {"maxValue": None}}, {"inner": {}}),
        ({"conditions": [{"maxValue": None}]}, {"conditions": [{}]}),
        ({"pairs": [{"maxValue": None}]}, {"pairs": [{}]}),
        ({"conditions": [None]}, {"conditions": [None]}),
        ({"labels": {"tier": None}}, {"labels": {"tier": None}}),
        ({"unknown": None}, {"unknown": None}),
        ("text", "text"),
    ],
    ids=str,
)
def test_fields_that_are_null_are_left_out_and_nothing_else(data: Any, left: Any) -> None:
    assert left_out(data, Outer) == left


def test_sections_without_anything_in_them_are_as_good_as_none() -> None:
    empty = "plugins:\n  - type: queue-scorer\n    name:\n    parameters:\n" + "".join(
        f"{name}:\n"
        for name in (
            "featureGates",
            "schedulingProfiles",
            "dataLayer",
            "flowControl",
            "requestHandler",
            "saturationDetector",
            "parser",
        )
    )
    loaded = load(yaml.safe_dump(HEAD) + empty)
    plain = config(plugins=plugins("queue-scorer"))
    assert loaded.notes == plain.notes
    assert list(loaded.plugins) == ["queue-scorer"]


def test_a_parameter_without_a_value_is_the_default() -> None:
    loaded = config(plugins=[{"type": "load-aware-scorer", "parameters": {"threshold": None}}])
    assert loaded.plugins["load-aware-scorer"].parameters.threshold == 128


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ({"type": None}, "missing required field `type` - at `$.plugins[0]`"),
        (
            {"type": "label-selector-filter", "parameters": {"matchLabels": {"tier": None}}},
            "got `null` - at `$.plugins[0].parameters.matchLabels[...]`",
        ),
        ({"type": "queue-scorer", "parameter": None}, "did you mean 'parameters'?"),
    ],
    ids=["required", "a-label", "unknown"],
)
def test_what_needs_a_value_is_refused_without_one(plugin: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(plugins=[plugin])
    assert said in str(refused.value)
