"""Case: all that a check may look at, as it is at one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from indexer.feed import Feed
from router.pool.endpoint import Endpoint
from router.pool.models import ModelNames
from router.producers.inflight import InFlightLoad
from router.producers.prefix import PrecisePrefix
from router.producers.tokens import Backend
from router.telemetry.comparison import Comparison, Predicted
from router.telemetry.decisions import Record
from router.telemetry.state import Configuration

SILENCE_S = 30.0
"""How long events may stay away after a prompt was computed, unless somebody asks for another."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        now: Unix time.
        silence_s: How long events may stay away.
        endpoints: All of the pool.
        resolve: What a model name of a request stands for.
        prefixes: The indexes.
        tokenizers: Where token ids come from.
        loads: Requests in flight.
        records: The last decisions, oldest first.
        answers: Those of them that engines answered, by who computed the prompt.
        comparison: What was predicted.
        restarts: Endpoint address -> how often its process was seen to be another one.
        grown: By how much a counter of this name, now at this value, grew in the window.
        window_s: How long that window is.
        lasting_s: How long a condition of this name has been so.
        config: The configuration, as far as people should know.
    """

    now: float
    silence_s: float
    endpoints: Sequence[Endpoint]
    resolve: Callable[[str], ModelNames]
    prefixes: Sequence[PrecisePrefix]
    tokenizers: Sequence[Backend]
    loads: Sequence[InFlightLoad]
    records: Sequence[Record]
    answers: Mapping[str, Sequence[Record]]
    comparison: Comparison
    restarts: Mapping[str, int]
    grown: Callable[[Hashable, float], float]
    window_s: float
    lasting_s: Callable[[Hashable], float]
    config: Configuration

    def feeds(self) -> Iterator[tuple[PrecisePrefix, Feed]]:
        """Every event stream of an endpoint, those that never spoke apart where another did.

        An engine either listens or connects, and may be expected both ways.
        """
        for prefix in self.prefixes:
            feeds = prefix.index.feeds()
            heard = {feed.source.holder for feed in feeds if feed.order.next is not None}
            for feed in feeds:
                if feed.order.next is not None or feed.source.holder not in heard:
                    yield prefix, feed

    def answered(self, address: str) -> Sequence[Record]:
        """The last requests whose prompt an endpoint computed, oldest first."""
        return self.answers.get(address, ())


def answers(records: Iterable[Record]) -> Mapping[str, Sequence[Record]]:
    """Those that engines answered as planned, by the endpoint that computed the prompt."""
    found: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        address = record.endpoint if record.prefill is None else record.prefill.endpoints[0]
        if address is None or record.status is None or record.status >= 400 or record.served:
            continue
        found[address].append(record)
    return found


def counters(case: Case) -> Mapping[Hashable, float]:
    """Everything whose growth is looked at, by the names checks use."""
    values: dict[Hashable, float] = {}
    for number, tokenizer in enumerate(case.tokenizers):
        stats = tokenizer.stats
        values["tokenized", number] = stats.tokenized
        values["asked", number] = sum(stats.took_buckets)
        values["took", number] = stats.took_s
        for reason, count in stats.missing.items():
            values["missing", number, reason] = count
    for prefix in case.prefixes:
        if prefix.central is not None:
            for address, count in prefix.central.unknown.items():
                values["stranger", prefix.name, address] = count
            for topic, count in prefix.central.topics.items():
                values["topic", prefix.name, topic] = count
    for _, feed in case.feeds():
        values["restarts", feed.source] = feed.stats.restarts
    for address, count in case.restarts.items():
        values["process", address] = count
    for endpoint in case.endpoints:
        for name, value in compared(case, endpoint).items():
            values[name, endpoint.address] = value
    return values


def compared(case: Case, endpoint: Endpoint) -> Mapping[str, float]:
    """What was predicted for an endpoint and what it says; empty where it does not say."""
    metrics = endpoint.metrics
    if metrics is None or metrics.prefix_hits is None or metrics.prefix_queries is None:
        return {}
    predicted = case.comparison.predicted.get(endpoint.address) or Predicted()
    return {
        "hits": metrics.prefix_hits,
        "queries": metrics.prefix_queries,
        "predicted": predicted.cached_tokens,
        "prompt": predicted.prompt_tokens,
    }
