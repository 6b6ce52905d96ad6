"""precise-prefix-cache-scorer: a scorer of older configurations that brings its producer along."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from router.config.plugins import Plugin
from router.scheduling.scorers.precise_prefix_cache import PrecisePrefixScorerParameters
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer

_PRODUCER = "precise-prefix-cache-producer"


def bound(plugins: Mapping[str, Plugin]) -> dict[str, Plugin]:
    """The plugins, with each such scorer reading the declared producer or else its own."""
    declared = [p.name for p in plugins.values() if p.type == _PRODUCER]
    return {
        name: _reading(plugin, declared[0] if declared else name)
        if isinstance(plugin.parameters, PrecisePrefixScorerParameters)
        else plugin
        for name, plugin in plugins.items()
    }


def producers(plugins: Mapping[str, Plugin]) -> dict[str, Plugin]:
    """The producers that such scorers bring along: none where one is declared."""
    if any(p.type == _PRODUCER for p in plugins.values()):
        return {}
    return {
        p.name: Plugin(p.name, _PRODUCER, p.path, p.parameters, p.parameters)
        for p in plugins.values()
        if isinstance(p.parameters, PrecisePrefixScorerParameters)
    }


def notified(plugins: Mapping[str, Plugin]) -> frozenset[str]:
    """Those that follow every endpoint, which they do without being wired to a source."""
    return frozenset(
        producer.name
        for producer in producers(plugins).values()
        if producer.parameters.kv_events_config.discover_pods
        and not producer.parameters.kv_events_config.zmq_endpoint
    )


def _reading(plugin: Plugin, producer: str) -> Plugin:
    scorer = PrefixCacheScorer(prefix_match_info_producer_name=producer)
    return msgspec.structs.replace(plugin, value=scorer)
