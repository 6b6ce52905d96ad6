"""Names in parameters that must be somebody's: extractors, profiles, and attributes of endpoints.

Producers, deciders and what the sections of a file refer to are looked up where they are used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from router import catalog
from router.config import nearest, notes
from router.config.data_layer import DataLayer
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE, Role
from router.config.notes import Note
from router.config.plugins import Plugin
from router.pool import dcgm
from router.pool.topology import TopologyLabels
from router.producers.p2p_source import P2PSourceParameters
from router.scheduling import attributes
from router.scheduling.affinity import AffinityParameters
from router.scheduling.filters.endpoint_attribute import EndpointAttributeFilter
from router.scheduling.filters.topology_affinity import TopologyAffinityFilter
from router.scheduling.scorers.endpoint_attribute import EndpointAttributeScorer
from router.scheduling.scorers.topology_affinity import TopologyAffinityScorer

_TOPOLOGY = "topology-extractor"
_METRICS = "core-metrics-extractor"
"""Extractors that are there without being declared."""


def check(plugins: Mapping[str, Plugin], profiles: Collection[str]) -> None:
    """Raises ConfigError for a name that nobody has."""
    for plugin in plugins.values():
        match plugin.parameters:
            case TopologyAffinityFilter() | TopologyAffinityScorer() as named:
                topologies = (n for n, p in plugins.items() if isinstance(p.value, TopologyLabels))
                known = {_TOPOLOGY, *topologies}
                _known(named.topology_producer_name, known, plugin, "topologyProducerName")
            case EndpointAttributeFilter() | EndpointAttributeScorer() as named:
                known = {_METRICS, *_extractors(plugins)}
                _known(named.producer, known, plugin, "producer")
            case AffinityParameters() as named:
                _known(named.profile_name, profiles, plugin, "profileName")
            case P2PSourceParameters() as named if named.prefill_profile_name != "prefill":
                _known(named.prefill_profile_name, profiles, plugin, "prefillProfileName")


def unstated(plugins: Mapping[str, Plugin], data: DataLayer) -> Iterator[Note]:
    """Attributes that are asked for and never stated."""
    tables = (dialect.keys for dialect in data.core.dialects().table.values())
    stated = {*attributes.CORE, *(key for keys in tables for key in keys)}
    stated |= {dcgm.KEY} if data.gpus else set()
    for plugin in plugins.values():
        match plugin.parameters:
            case EndpointAttributeFilter(attribute=key):
                name = "attribute"
            case EndpointAttributeScorer(attribute_key=key):
                name = "attributeKey"
            case _:
                continue
        if key not in stated:
            clause = nearest.suggest(key, {*stated, dcgm.KEY} - {key})
            if key == dcgm.KEY:
                clause = "no dcgm-data-source is among the sources"
            said = f"no extractor states {key!r} of any endpoint; {clause}"
            yield notes.warning(said, f"{plugin.path}.parameters.{name}")


def _extractors(plugins: Mapping[str, Plugin]) -> Iterator[str]:
    """Those that may state attributes, also where they do not run."""
    for name, plugin in plugins.items():
        dormant = INACTIVE.get(plugin.type)
        if dormant.role is Role.EXTRACTOR if dormant else plugin.type in catalog.EXTRACTORS:
            yield name


def _known(name: str, known: Collection[str], plugin: Plugin, field: str) -> None:
    if name and name not in known:
        is_type = name in catalog.EXTRACTORS
        clause = "declare it in plugins" if is_type else nearest.suggest(name, known)
        where = f"{plugin.path}.parameters.{field}"
        raise ConfigError(f"there is no {name!r}; {clause} - at `{where}`")
