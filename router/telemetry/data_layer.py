"""What was read of endpoints and what could not be, for the metrics page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from router.pool.endpoint import NO_METRICS
from router.pool.gpus import GpuScraper
from router.pool.scrape import MALFORMED, Scraper
from router.telemetry.samples import Sample, Values

METRICS, MODELS, GPUS = "metrics-data-source", "models-data-source", "dcgm-data-source"

EXTRACTORS: Mapping[str, tuple[str, str]] = {
    METRICS: ("core-metrics-extractor", NO_METRICS),
    MODELS: ("models-data-extractor", MALFORMED),
    GPUS: ("dcgm-extractor", NO_METRICS),
}
"""Source -> who reads what it brings, and what it is called if that cannot be read."""


def samples(scraper: Scraper, gpus: Sequence[GpuScraper]) -> Iterator[Sample]:
    """Counted since the configuration in force began to count."""
    stats = scraper.stats
    failures: Counter[tuple[str, ...]] = Counter()
    errors: Counter[tuple[str, ...]] = Counter()
    for source, counted in (
        (METRICS, stats.failures),
        (MODELS, stats.models_failures),
        *((GPUS, gpu.failures) for gpu in gpus),
    ):
        errors[(source,)] += counted.total()
        for reason, count in counted.items():
            failures[source, reason] += count
    extracting: Values = {
        (source, extractor): float(failures[source, reason])
        for source, (extractor, reason) in EXTRACTORS.items()
    }
    text = "Those of them that brought an answer in which nothing was found."
    labels = ("source_type", "extractor_type")
    yield Sample("llm_d_epp_datalayer_extract_errors", text, extracting, labels, True)
    label = ("source_type",)
    yield Sample("llm_d_epp_datalayer_poll_errors", "Reads that failed.", errors, label, True)
    text = "The same by reason."
    yield Sample("warmroute_read_failures", text, failures, (*label, "reason"), True)
    reads: Values = {(METRICS,): float(stats.scrapes), (MODELS,): float(stats.models)}
    yield Sample("warmroute_reads", "That gave something.", reads, label, True)
    incomplete: Values = {(): float(stats.incomplete)}
    text = "Metrics pages that lacked queue, running requests or KV usage."
    yield Sample("warmroute_metrics_incomplete", text, incomplete, counter=True)
    ignored: Values = {(): float(stats.ignored_lines)}
    text = "Of metrics pages, that could not be read."
    yield Sample("warmroute_metrics_lines_ignored", text, ignored, counter=True)
