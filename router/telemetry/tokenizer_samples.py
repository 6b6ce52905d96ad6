"""The tokenizers' figures for the metrics page; those of several are added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from router.producers.tokens import TIME_BUCKETS_S, Backend, TokenStats
from router.telemetry.samples import Buckets, Histogram, Sample, Values


def samples(tokenizers: Sequence[Backend]) -> Iterator[Sample | Histogram]:
    """Nothing where there is no tokenizer."""
    if not tokenizers:
        return
    stats = [tokenizer.stats for tokenizer in tokenizers]
    yield _sum("tokenizer_connected", "Backends that are reached.", [s.connected for s in stats])
    opened = [s.connections for s in stats]
    yield _sum("tokenizer_connections", "Opened.", opened, counter=True)
    yield _sum("tokenizer_breaker_open", "Hang and are left alone.", [s.hanging for s in stats])
    done = [s.tokenized for s in stats]
    yield _sum("tokenized_requests", "With token ids.", done, counter=True)
    partial = [s.partial for s in stats]
    yield _sum("partial_requests", "Up to their media only.", partial, counter=True)
    missing: Counter[tuple[str, ...]] = Counter()
    for each in stats:
        missing.update({(str(reason),): count for reason, count in each.missing.items()})
    text = "Routed without token ids."
    yield Sample("warmroute_untokenized_requests", text, missing, ("reason",), True)
    text = "How long requests waited for token ids, whether they got any or not."
    yield Histogram("warmroute_tokenizer_wait_seconds", text, {(): _waits(stats)})


def _sum(name: str, text: str, values: Sequence[float], *, counter: bool = False) -> Sample:
    added: Values = {(): float(sum(values))}
    return Sample(f"warmroute_{name}", text, added, counter=counter)


def _waits(stats: Sequence[TokenStats]) -> Buckets:
    waits = Buckets(TIME_BUCKETS_S)
    waits.total = sum(each.took_s for each in stats)
    waits.counts = [sum(counts) for counts in zip(*(s.took_buckets for s in stats), strict=True)]
    return waits
