"""Plain data -> EndpointPickerConfig, strictly, with the nearest valid name in every error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from router.config import nearest, notes
from router.config.errors import ConfigError
from router.config.notes import Note
from router.config.plugins import decoded
from router.config.schema import API_VERSIONS, EndpointPickerConfig

FLOW_CONTROL_GATE = "flowControl"

_GATES: Mapping[str, tuple[bool, str]] = {
    FLOW_CONTROL_GATE: (False, "there are no flow-control queues"),
    "haPopulateNonLeaderDatastore": (True, "there is no leader election: every router is ready"),
}
"""Feature gate -> its default, and why another value changes nothing."""

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})


def decode(data: object) -> EndpointPickerConfig:
    """Raises ConfigError."""
    file = decoded(data, EndpointPickerConfig, "$")
    if file.api_version not in API_VERSIONS:
        clause = nearest.suggest(file.api_version, API_VERSIONS)
        raise ConfigError(f"unknown version {file.api_version!r}; {clause} - at `$.apiVersion`")
    return file


def gates(file: EndpointPickerConfig) -> Mapping[str, bool]:
    """Every gate and whether it is open. Raises ConfigError."""
    given = {name: default for name, (default, _) in _GATES.items()}
    for i, text in enumerate(file.feature_gates):
        path = f"$.featureGates[{i}]"
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in _GATES:
            clause = nearest.suggest(name, _GATES)
            raise ConfigError(f"unknown feature gate {name!r}; {clause} - at `{path}`")
        word = value.lower() if equals else "true"
        if word not in _TRUE | _FALSE:
            raise ConfigError(f"expected {name}=true or {name}=false, got {text!r} - at `{path}`")
        given[name] = word in _TRUE
    return given


def about_gates(opened: Mapping[str, bool]) -> Iterator[Note]:
    """The gates that ask for what there is not."""
    for name, (default, why) in _GATES.items():
        if opened[name] != default:
            said = f"{name}={str(opened[name]).lower()}"
            yield notes.inactive(f"{said} changes nothing: {why}", "$.featureGates")
