"""The flowControl section beyond its detector: checked, and not run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from router.config import nearest, notes
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE, Role
from router.config.notes import Note
from router.config.plugins import Plugin
from router.config.schema import BandEntry, EndpointPickerConfig, FlowControlEntry

_PATH = "$.flowControl"


def check(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> Iterator[Note]:
    """What it asks for and does not get. Raises ConfigError for a wrong reference."""
    given = file.flow_control
    policy = given.usage_limit_policy_plugin_ref
    if policy is not None:
        _policy(policy, Role.USAGE_LIMIT, plugins, f"{_PATH}.usageLimitPolicyPluginRef")
    for band, path in _bands(given):
        if band.fairness_policy_ref:
            where = f"{path}.fairnessPolicyRef"
            _policy(band.fairness_policy_ref, Role.FAIRNESS, plugins, where)
        if band.ordering_policy_ref:
            where = f"{path}.orderingPolicyRef"
            _policy(band.ordering_policy_ref, Role.ORDERING, plugins, where)
    if msgspec.structs.replace(given, saturation_detector=None) != FlowControlEntry():
        yield notes.inactive(
            "of flowControl only saturationDetector counts: there are no queues, a request is"
            " admitted or refused at once",
            _PATH,
        )


def _bands(given: FlowControlEntry) -> Iterator[tuple[BandEntry, str]]:
    if given.default_priority_band is not None:
        yield given.default_priority_band, f"{_PATH}.defaultPriorityBand"
    if given.default_negative_priority_band is not None:
        yield given.default_negative_priority_band, f"{_PATH}.defaultNegativePriorityBand"
    for i, band in enumerate(given.priority_bands):
        yield band, f"{_PATH}.priorityBands[{i}]"


def _policy(ref: str, role: Role, plugins: Mapping[str, Plugin], path: str) -> None:
    """A declared plugin of that role, or a type of it: each type has an instance of its name."""
    kind = plugins[ref].type if ref in plugins else ref
    if kind in INACTIVE and INACTIVE[kind].role is role:
        return
    declared = {p.name for p in plugins.values() if p.type in INACTIVE}
    known = {
        name
        for name in declared | set(INACTIVE)
        if INACTIVE[plugins[name].type if name in plugins else name].role is role
    }
    raise ConfigError(f"{ref!r} is no {role}; {nearest.suggest(ref, known)} - at `{path}`")
