"""Counts of decisions that cost almost nothing to keep; labels are found when somebody asks.

But for models: clients invent their names, so what is kept under them would grow without end.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from router.telemetry import buckets
from router.telemetry.decisions import Record
from router.telemetry.samples import Buckets, Histogram, Sample, Values

Kept = Mapping[tuple[str, ...], Buckets]

GUESSED = "guessed"
"""What the part of a match is called that no event has confirmed yet."""

OTHER = "other"

_reach = operator.attrgetter("speculative")

MAX_TIERS = 16
"""Engines name their tiers; further ones are called other."""

MAX_ATTEMPTS = 10_000
"""Endpoints come and go, each with an address of its own: further ones are called other."""

BYTES_PER_TOKEN = 4
"""Of text, on average; what llm-d counts for one, too."""

STEPS = frozenset({"parse", "wait", "schedule"})
"""Stages of a decision that are no producer."""


class Names(msgspec.Struct, frozen=True):
    """How things are called that records know by one name only.

    Attributes:
        model: Model name -> what it is called in labels.
        endpoint: Address -> name and namespace.
        plugin: Instance name -> type.
    """

    model: Callable[[str], str]
    endpoint: Callable[[str], tuple[str, str]] = lambda address: (address, "")
    plugin: Callable[[str], str] = lambda name: name


class Counts:
    """Told of each request."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._attempts: Counter[tuple[str, str, str]] = Counter()
        self._plugins: dict[tuple[str, str], Buckets] = {}
        self._matched: dict[str, Buckets] = {}
        self._ratios: dict[str, Buckets] = {}
        self._bytes: dict[str, Buckets] = {}
        self._lookups = self._hits = self._longest = 0
        self._lookup_s = Buckets(buckets.PLUGIN_S)

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        model = self._names.model(record.target_model)
        attempt = "success", model, record.endpoint or ""
        if attempt not in self._attempts and len(self._attempts) >= MAX_ATTEMPTS:
            attempt = "success", OTHER, OTHER
        self._attempts[attempt] += 1
        for stage, ms in record.times_ms.items():
            if stage not in STEPS:
                self._timed("Producer", stage).observe(ms / 1e3)
        if record.block_size:
            self._looked_up(record)

    def refused(self, record: Record) -> None:
        """A request was refused."""
        self._attempts["failure", self._names.model(record.target_model), ""] += 1

    def timer(self, point: str, plugin: str) -> Callable[[float], None]:
        """Takes what a plugin that is called at `point` takes, in seconds."""
        return self._timed(point, plugin).observe

    def _timed(self, point: str, plugin: str) -> Buckets:
        kept = self._plugins.get((point, plugin))
        if kept is None:
            kept = self._plugins[point, plugin] = Buckets(buckets.PLUGIN_S)
        return kept

    def _looked_up(self, record: Record) -> None:
        held = record.prefix.get(_computing(record))
        blocks = held.speculative if held is not None else 0
        longest = max(map(_reach, record.prefix.values()), default=0)
        self._lookups += 1
        self._lookup_s.observe(record.times_ms.get(record.prefix_producer, 0.0) / 1e3)
        self._hits += longest > 0
        self._longest += longest
        producer = record.prefix_producer
        ratios = self._ratios.get(producer)
        if ratios is None:
            ratios = self._ratios[producer] = Buckets(buckets.RATIOS)
            self._bytes[producer] = Buckets(buckets.MATCHED_BYTES)
        ratios.observe(blocks / record.total_blocks if record.total_blocks else 0.0)
        self._bytes[producer].observe(blocks * record.block_size * BYTES_PER_TOKEN)
        if held is None:
            return
        for tier, count in held.tiers.items():
            self._tier(tier).observe(count * record.block_size)
        if blocks > held.blocks:
            self._tier(GUESSED).observe((blocks - held.blocks) * record.block_size)

    def _tier(self, tier: str) -> Buckets:
        kept = self._matched.get(tier)
        if kept is None:
            if len(self._matched) >= MAX_TIERS and tier != OTHER:
                return self._tier(OTHER)
            kept = self._matched[tier] = Buckets(buckets.MATCHED_TOKENS)
        return kept

    def samples(self) -> Iterator[Sample | Histogram]:
        """What was counted."""
        yield self._attempt_sample()
        plugins: Kept = {
            (point, self._names.plugin(name), name): kept
            for (point, name), kept in self._plugins.items()
        }
        text, by = "What plugins take per request.", ("plugin_type", "plugin_name")
        point = ("extension_point", *by)
        yield Histogram("llm_d_epp_plugin_duration_seconds", text, plugins, point)
        text = "Share of a prompt's blocks that the endpoint picked is expected to hold."
        ratios = self._by_plugin(self._ratios)
        yield Histogram("llm_d_epp_prefix_indexer_hit_ratio", text, ratios, by)
        text = "Bytes of a prompt that those blocks stand for, at four a token."
        matched = self._by_plugin(self._bytes)
        yield Histogram("llm_d_epp_prefix_indexer_hit_bytes", text, matched, by)
        text = "Tokens that the endpoint picked holds of a prompt, by tier."
        tiers: Kept = {(tier,): kept for tier, kept in self._matched.items()}
        yield Histogram("warmroute_match_tokens", text, tiers, ("tier",))
        text = "What it takes to look a prompt up."
        latency: Kept = {(): self._lookup_s}
        yield Histogram("llm_d_epp_kv_cache_index_lookup_latency_seconds", text, latency)
        for name, text, count in (
            ("lookup_requests", "Prompts looked up.", self._lookups),
            ("lookup_hits", "Those of which somebody holds a block.", self._hits),
            ("max_pod_hit_count", "Blocks that the best holder has, added up.", self._longest),
        ):
            value: Values = {(): float(count)}
            yield Sample(f"llm_d_epp_kv_cache_index_{name}", text, value, counter=True)

    def _by_plugin(self, kept: Mapping[str, Buckets]) -> Kept:
        return {(self._names.plugin(name), name): each for name, each in kept.items()}

    def _attempt_sample(self) -> Sample:
        attempts: Counter[tuple[str, ...]] = Counter()
        for (status, model, address), count in self._attempts.items():
            named = address and address != OTHER
            name, namespace = self._names.endpoint(address) if named else (address, "")
            port = address.rpartition(":")[2] if named else ""
            attempts[status, model, name, namespace, port] += count
        labels = ("status", "target_model_name", "endpoint_name", "namespace", "port")
        text = "Picks, and requests for which there was none."
        return Sample("llm_d_epp_scheduler_attempts", text, attempts, labels, True)


def _computing(record: Record) -> str:
    """Address of the endpoint that computes the prompt."""
    return record.prefill.endpoints[0] if record.prefill is not None else record.endpoint or ""
