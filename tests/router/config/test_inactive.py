from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from router import catalog
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE
from router.config.load import Config, load

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def config(**fields: Any) -> Config:
    return load(msgspec.json.encode(HEAD | fields).decode())


@pytest.mark.parametrize("kind", INACTIVE)
def test_a_type_that_does_not_run_is_accepted_and_told(kind: str) -> None:
    built = config(plugins=[{"type": kind}, {"type": "queue-scorer"}])
    (note,) = [note for note in built.warnings if kind in note]
    assert note == f"{kind} does not run: {INACTIVE[kind].why} - at `$.plugins[0]`"


@pytest.mark.parametrize("kind", INACTIVE)
def test_its_parameters_are_checked(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown field `zz`.*at `\$\.plugins\[0\]\.parameters`"):
        config(plugins=[{"type": kind, "parameters": {"zz": 1}}])


def test_a_parameter_of_a_wrong_type_is_refused() -> None:
    said = "Expected `str`, got `int` - at `$.plugins[0].parameters.strategy`"
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(plugins=[{"type": "program-aware-fairness", "parameters": {"strategy": 1}}])


def test_no_type_both_runs_and_does_not() -> None:
    assert set(INACTIVE).isdisjoint(catalog.ALL)


def test_a_profile_goes_on_without_a_member_that_does_not_run() -> None:
    built = config(
        plugins=[{"type": "latency-scorer"}, {"type": "queue-scorer"}],
        schedulingProfiles=[
            {
                "name": "default",
                "plugins": [{"pluginRef": "latency-scorer"}, {"pluginRef": "queue-scorer"}],
            }
        ],
    )
    assert [scorer.name for scorer in built.profiles["default"].scorers] == ["queue-scorer"]
    assert len(built.warnings) == 1
