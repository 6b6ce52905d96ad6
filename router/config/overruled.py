"""Parameters that are written down and run with another value than that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router.config import notes
from router.config.data_layer import DataLayer
from router.config.duration import seconds
from router.config.notes import Note
from router.config.plugins import Plugin
from router.config.schema import PluginEntry
from router.pool.endpoint import GOOD_FOR_INTERVALS
from router.producers.approx_parameters import MIN_BLOCK_TOKENS, ApproxPrefixParameters
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.scheduling.filters.prefix_cache_affinity import PrefixCacheAffinityFilter
from router.scheduling.filters.utilization_detector import UtilizationDetector


def about(
    entries: Sequence[PluginEntry], plugins: Mapping[str, Plugin], data: DataLayer
) -> Iterator[Note]:
    """What the file's author should know of each such parameter."""
    for entry in entries:
        plugin = plugins[entry.name or entry.type]
        for name, why in _of(plugin.parameters, entry.parameters or {}, data):
            yield notes.no_effect(f"{name}: {why}", f"{plugin.path}.parameters.{name}")
        yield from _inactive(plugin)


def _inactive(plugin: Plugin) -> Iterator[Note]:
    value = plugin.parameters
    if isinstance(value, PrefixCacheAffinityFilter) and value.ttft_source == "latencyPredictor":
        said = "ttftSource: latency is not predicted: as with prefillThroughput"
        yield notes.inactive(said, f"{plugin.path}.parameters.ttftSource")


def _of(value: object, written: Mapping[str, object], data: DataLayer) -> Iterator[tuple[str, str]]:
    match value:
        case ApproxPrefixParameters():
            yield from _approx(value, written)
        case PrecisePrefixParameters():
            sizes = value.token_processor_config
            if sizes.block_size and sizes.block_size_tokens:
                yield "tokenProcessorConfig.blockSize", "blockSizeTokens counts"
        case UtilizationDetector() if "metricsStalenessThreshold" in written:
            least_s = GOOD_FOR_INTERVALS * data.metrics.interval_s if data.metrics else 0.0
            name = "metricsStalenessThreshold"
            if seconds(value.metrics_staleness_threshold, name) < least_s:
                yield name, "metrics count for at least three intervals of scraping and one timeout"


def _approx(
    value: ApproxPrefixParameters, written: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    name = "blockSize" if value.block_size else "blockSizeTokens"
    if name in written and (value.block_size or value.block_size_tokens) < MIN_BLOCK_TOKENS:
        yield name, f"blocks have {MIN_BLOCK_TOKENS} tokens at least"
    if value.block_size and "blockSizeTokens" in written:
        yield "blockSizeTokens", "blockSize counts"
    if value.max_prefix_tokens_to_match and "maxPrefixBlocksToMatch" in written:
        tokens = value.max_prefix_tokens_to_match
        yield "maxPrefixBlocksToMatch", f"maxPrefixTokensToMatch counts while it is not 0: {tokens}"
