"""The router's state for people and for gauges: endpoints, index, streams, what is degraded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from router.extproc.stats import StreamStats
from router.pool.endpoint import Endpoint
from router.pool.outliers import Outliers
from router.pool.pool import Pool
from router.producers.inflight import InFlightLoad
from router.producers.prefix import PrecisePrefix
from router.producers.tokens import Backend
from router.telemetry import (
    exchange_samples,
    index_samples,
    pool_samples,
    stream_faults,
    streams,
    tokenizer_samples,
)
from router.telemetry.samples import Histogram, Sample, Values


class Discovery(Protocol):
    """Where endpoints come from, as far as people should know.

    Attributes:
        synced: The pool holds what it says.
        error: Why its latest word is not in force; None where it is.
        warnings: Entries left out, and why.
    """

    synced: bool

    @property
    def error(self) -> str | None: ...

    @property
    def warnings(self) -> Sequence[str]: ...


class Configuration(Protocol):
    """The configuration as far as people should know.

    Attributes:
        error: Why its file as it is now is not in force; None where it is.
        warnings: What it asks for that does not have the effect somebody may hope for.
        reloads: Versions of its file that took effect since the start.
        failures: Versions that could not.
    """

    error: str | None
    reloads: int
    failures: int

    @property
    def warnings(self) -> Sequence[str]: ...


class State:
    """
    Attributes:
        serving: The ext_proc port is open and the router does not drain.
    """

    def __init__(
        self,
        pool: Pool,
        outliers: Outliers,
        discovery: Discovery,
        exchanges: StreamStats,
        tokenizers: Sequence[Backend],
        prefixes: Sequence[PrecisePrefix],
        loads: Sequence[InFlightLoad],
        config: Configuration,
        prefill_outliers: Outliers | None = None,
        pool_name: str = "",
    ) -> None:
        self.serving = False
        self._pool = pool
        self._outliers = outliers
        self._discovery = discovery
        self._exchanges = exchanges
        self._tokenizers = tokenizers
        self._prefixes = prefixes
        self._loads = loads
        self._config = config
        self._pool_name = pool_name
        self._prefill_outliers = prefill_outliers or Outliers(lambda: 0.0)

    def degraded(self) -> list[str]:
        """What works less well than it should, in a few words each."""
        endpoints = self._pool.snapshot()
        faults = []
        if not endpoints:
            faults.append("no endpoints")
        if self._config.error is not None:
            faults.append(f"configuration: the file is not in force: {self._config.error}")
        if self._discovery.error is not None:
            faults.append(f"discovery: {self._discovery.error}")
        faults += [f"discovery: {entry}" for entry in self._discovery.warnings]
        faults += [
            f"endpoint {e.address}: does not answer scrapes" for e in endpoints if not e.alive
        ]
        faults += [f"endpoint {e.address}: not scraped yet" for e in endpoints if e.metrics is None]
        faults += [
            f"endpoint {e.address}: kept out, its last answers failed"
            for e in self._outliers.out(endpoints)
        ]
        faults += [
            f"endpoint {e.address}: kept out of prefill, its last prefills failed"
            for e in self._prefill_outliers.out(endpoints)
        ]
        if self._exchanges.ends_early:
            faults.append(
                "data plane: its streams end with the response headers, so requests in flight are "
                "not counted: response_trailer_mode SEND is missing"
            )
        faults += ["tokenizer: not connected" for s in self._tokenizers if not s.stats.connected]
        faults += [
            f"tokenizer: model {model}" for s in self._tokenizers for model in s.stats.not_ready
        ]
        hanging = [s for s in self._tokenizers if s.stats.hanging]
        faults += ["tokenizer: does not answer in time" for _ in hanging]
        for prefix in self._prefixes:
            faults += stream_faults.faults(prefix)
        return faults

    def describe(self) -> Mapping[str, Any]:
        """Everything worth knowing."""
        in_flight = self._loads[0].requests if self._loads else {}
        return {
            "endpoints": [_endpoint(e, in_flight) for e in self._pool.snapshot()],
            "discovery": {
                "synced": self._discovery.synced,
                "error": self._discovery.error,
                "left_out": list(self._discovery.warnings),
            },
            "indexes": [_index(prefix) for prefix in self._prefixes],
            "tokenizers": [
                {
                    "connected": s.stats.connected,
                    "tokenized": s.stats.tokenized,
                    "missing": dict(s.stats.missing),
                }
                for s in self._tokenizers
            ],
            "streams": {
                "open": self._exchanges.open,
                "total": self._exchanges.total,
                "failed": self._exchanges.failed,
            },
            "config_warnings": list(self._config.warnings),
            "config_error": self._config.error,
            "degraded": self.degraded(),
        }

    def samples(self) -> Iterator[Sample | Histogram]:
        """What is counted elsewhere, for the metrics page."""
        yield from pool_samples.samples(self._pool.snapshot(), self._pool_name)
        left_out: Values = {(): float(len(self._discovery.warnings))}
        yield Sample("warmroute_discovery_left_out", "Entries that cannot be used.", left_out)
        yield from exchange_samples.samples(self._exchanges)
        warnings: Values = {(): float(len(self._config.warnings))}
        yield Sample("warmroute_config_warnings", "Of the configuration.", warnings)
        reloads: Values = {
            ("done",): float(self._config.reloads),
            ("failed",): float(self._config.failures),
        }
        yield Sample(
            "warmroute_config_reloads", "Of its file, when it changed.", reloads, ("result",), True
        )
        yield from tokenizer_samples.samples(self._tokenizers)
        for prefix in self._prefixes:
            yield from index_samples.samples(prefix)
            yield from streams.samples(prefix)


def _endpoint(endpoint: Endpoint, in_flight: Mapping[str, int]) -> Mapping[str, Any]:
    return {
        "name": endpoint.name,
        "namespace": endpoint.namespace,
        "address": endpoint.address,
        "labels": endpoint.labels,
        "rank": endpoint.rank,
        "alive": endpoint.alive,
        "in_flight": in_flight.get(endpoint.address, 0),
        "metrics": endpoint.metrics,
        "models": endpoint.models,
    }


def _index(prefix: PrecisePrefix) -> Mapping[str, Any]:
    index = prefix.index
    return {
        "producer": prefix.name,
        "block_size": index.block_size,
        "stats": index.stats(),
        "bounds": prefix.bounds,
        "holders": [index.state(holder) for holder in index.holders()],
        "unusable": {source.endpoint: why for source, why in prefix.unusable().items()},
        "feeds": [streams.describe(feed) for feed in index.feeds()],
        "central": streams.describe_central(prefix),
    }
