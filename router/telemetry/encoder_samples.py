"""What encoder caches are thought to hold of requests' media, for the metrics page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from router.producers.encoder_cache import OTHER, RATIOS, EncoderCache
from router.telemetry.samples import Buckets, Histogram, Sample, Values

TYPE = "mm-embeddings-cache-producer"

_PLUGIN = ("plugin_type", "plugin_name")
_HITS = (*_PLUGIN, "pod", "modality")


def samples(
    caches: Sequence[EncoderCache], name_of: Callable[[str], tuple[str, str]]
) -> Iterator[Sample | Histogram]:
    """Nothing where there is no such producer; `name_of`: address -> name and namespace."""
    if not caches:
        return
    queries: Values = {
        (TYPE, cache.name, modality): float(count)
        for cache in caches
        for modality, count in cache.stats.queries.items()
    }
    text = "Media items looked up."
    yield Sample("llm_d_epp_encoder_cache_queries", text, queries, (*_PLUGIN, "modality"), True)
    hits: Counter[tuple[str, ...]] = Counter()
    for cache in caches:
        for (address, modality), count in cache.stats.hits.items():
            hits[TYPE, cache.name, _pod(address, name_of), modality] += count
    text = "Media items that an endpoint was found to have encoded before, picked or not."
    yield Sample("llm_d_epp_encoder_cache_hits", text, hits, _HITS, True)
    text = "Share of a request's media items that an endpoint has, for each endpoint."
    ratios: Mapping[tuple[str, ...], Buckets] = {
        (TYPE, cache.name): _ratios(cache) for cache in caches
    }
    yield Histogram("llm_d_epp_encoder_cache_hit_ratio", text, ratios, _PLUGIN)


def _pod(address: str, name_of: Callable[[str], tuple[str, str]]) -> str:
    if address == OTHER:
        return OTHER
    name, namespace = name_of(address)
    return f"{namespace}/{name}" if namespace else name


def _ratios(cache: EncoderCache) -> Buckets:
    kept = Buckets(RATIOS)
    kept.total, kept.counts = cache.stats.ratio_sum, list(cache.stats.ratio_buckets)
    return kept
