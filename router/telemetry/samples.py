"""What is counted without Prometheus' own classes, in the form a metrics page takes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.utils import floatToGoString

LLMD = "llm_d_epp_"
"""What llm-d's names begin with; it marks their help, too."""

Values = Mapping[tuple[str, ...], float]
"""Label values -> value."""


class Sample(msgspec.Struct, frozen=True):
    """One value that somebody else counts.

    Attributes:
        name: Metric name, a counter's without ``_total``.
        help: One sentence.
        counter: A counter; else a gauge.
        values: Label values -> value.
        labels: Label names.
    """

    name: str
    help: str
    values: Values
    labels: Sequence[str] = ()
    counter: bool = False


class Buckets:
    """A histogram: cheaper to observe than Prometheus' own, which takes a lock.

    Attributes:
        bounds: Upper ends of the buckets, rising; above the last there is one more.
        counts: Observations per bucket, each counted once.
        total: All observations added up.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Histogram(msgspec.Struct, frozen=True):
    """A histogram that somebody else keeps; fields as those of `Sample`."""

    name: str
    help: str
    values: Mapping[tuple[str, ...], Buckets]
    labels: Sequence[str] = ()


class Source(Protocol):
    """Whoever counts something."""

    def __call__(self) -> Iterable[Sample | Histogram]:
        """What it counts, now."""
        ...


class Capped:
    """The first values of a label, told as they are; for further ones there is no room."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: set[str] = set()

    def take(self, value: str) -> bool:
        """Whether there is room for it; once there was, there always is."""
        if value not in self._taken and len(self._taken) < self._limit:
            self._taken.add(value)
        return value in self._taken


class Collects(Protocol):
    """A registry, or a part of one."""

    def collect(self) -> Iterable[Metric]:
        """Its metrics."""
        ...


class Sources:
    """A collector that asks the sources. What several of them say of one metric is put together."""

    def __init__(self, *sources: Source) -> None:
        self.sources: list[Source] = [*sources]

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Sample] = {}
        for source in self.sources:
            for sample in source():
                if isinstance(sample, Histogram):
                    yield _histogram(sample)
                else:
                    known = families.get(sample.name)
                    families[sample.name] = sample if known is None else _both(known, sample)
        yield from map(_family, families.values())


class Told:
    """What has been collected already, and the rest."""

    def __init__(self, collected: Sequence[Metric], rest: Collects) -> None:
        self._collected = collected
        self._rest = rest

    def collect(self) -> Iterator[Metric]:
        yield from self._collected
        yield from self._rest.collect()


def _both(first: Sample, second: Sample) -> Sample:
    values = dict(first.values)
    for labels, value in second.values.items():
        values[labels] = values.get(labels, 0.0) + value
    return msgspec.structs.replace(first, values=values)


def described(name: str, text: str) -> str:
    """The help of a metric."""
    return f"[ALPHA] {text}" if name.startswith(LLMD) else text


def _family(sample: Sample) -> Metric:
    family = CounterMetricFamily if sample.counter else GaugeMetricFamily
    text = described(sample.name, sample.help)
    metric = family(sample.name, text, labels=sample.labels)
    for labels, value in sample.values.items():
        metric.add_metric(labels, value)
    return metric


def _histogram(sample: Histogram) -> Metric:
    text = described(sample.name, sample.help)
    metric = HistogramMetricFamily(sample.name, text, labels=sample.labels)
    for labels, kept in sample.values.items():
        metric.add_metric(labels, list(_cumulative(kept)), kept.total)
    return metric


def _cumulative(kept: Buckets) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(_shown, kept.bounds), "+Inf"), kept.counts, strict=True):
        total += count
        yield bound, total


def _shown(bound: float) -> str:
    """As Prometheus' own classes write it, but for whole numbers that are given as such."""
    if isinstance(bound, int):
        return str(bound)
    shown: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return shown
