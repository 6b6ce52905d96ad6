"""What was read of endpoints and what could not be, for the metrics page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from router.pool.gpus import GpuScraper
from router.pool.scrape import Scraper
from router.telemetry.samples import Sample, Values

METRICS, MODELS, GPUS = "metrics-data-source", "models-data-source", "dcgm-data-source"


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
