"""One model server: what discovery says of it and what its last scrape said."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

ROLE_LABEL = "llm-d.ai/role"
"""Pod label that names the stages an endpoint serves (llm-d)."""

GOOD_FOR_INTERVALS = 3
"""How many intervals of scraping old figures may be that anybody goes by."""

NO_METRICS = "no-metrics"
"""What failed a scrape that gave a page without any figure of that kind of engine."""


class Role(enum.StrEnum):
    """Values of the role label. ``both`` is an older name of ``prefill-decode``."""

    ENCODE = "encode"
    PREFILL = "prefill"
    DECODE = "decode"
    PREFILL_DECODE = "prefill-decode"
    BOTH = "both"
    ENCODE_PREFILL = "encode-prefill"
    ENCODE_PREFILL_DECODE = "encode-prefill-decode"


class KvEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Where one rank of an engine publishes its KV events.

    Attributes:
        endpoint: ZMQ address of its PUB socket, ``tcp://host:port``.
        replay: ZMQ address of its replay socket, if it has one.
        rank: Data-parallel rank whose cache the events describe.
    """

    endpoint: str
    replay: str | None = None
    rank: int = 0


class EngineMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one scrape. A figure the engine does not publish is None, never 0.

    Attributes:
        waiting: Requests queued in the engine, summed over its ranks.
        running: Requests being computed, summed over its ranks.
        kv_usage: Share of KV cache held by running requests, 0 to 1, averaged over its ranks.
        block_size: Tokens per KV block.
        gpu_blocks: KV blocks of the engine (of one rank).
        process_start: Unix time at which the engine's process started; a change means a restart.
        asleep: The engine sleeps: its cache is gone.
        prefix_queries: Prompt tokens looked up in the prefix cache since the start.
        prefix_hits: Those found there.
        running_adapters: LoRA adapters of the requests being computed.
        waiting_adapters: LoRA adapters of the requests queued.
        max_adapters: LoRA adapters the engine can hold at once.
        ignored_lines: Lines of needed families that could not be read.
        scraped_at: Unix time of the scrape.
        good_for_s: Age from which on they tell nothing: a few intervals of whoever scrapes.
    """

    waiting: int | None = None
    running: int | None = None
    kv_usage: float | None = None
    block_size: int | None = None
    gpu_blocks: int | None = None
    process_start: float | None = None
    asleep: bool = False
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    running_adapters: tuple[str, ...] = ()
    waiting_adapters: tuple[str, ...] = ()
    max_adapters: int | None = None
    ignored_lines: int = 0
    scraped_at: float = 0.0
    good_for_s: float = 3.0

    def tell(self, now_s: float) -> bool:
        """They are young enough to go by at that Unix time."""
        return now_s - self.scraped_at <= self.good_for_s


class ServedModels(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /v1/models`` says.

    Attributes:
        names: Names of the base model, as served; the first is the main one.
        root: Path or repository the base model was loaded from; it is a name of it, too.
        adapters: LoRA adapter name -> the base model name it belongs to.
        others: Further names it lists, of models that are not that base model.
    """

    names: tuple[str, ...] = ()
    root: str | None = None
    adapters: Mapping[str, str] = {}
    others: tuple[str, ...] = ()

    @property
    def listed(self) -> frozenset[str]:
        """Every name that a request may have."""
        return frozenset((*self.names, *self.adapters, *self.others))


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model server that requests can be sent to.

    Attributes:
        name: Name discovery gives it, unique with `namespace`.
        namespace: Kubernetes namespace, ``default`` elsewhere.
        host: As discovery names it: an IP address or a hostname.
        address: ``ip:port`` that Envoy dials; an IPv6 address stands in brackets. The identity of
            the endpoint everywhere in the router.
        labels: Labels, as on a pod.
        rank: Data-parallel rank, when this endpoint is one rank of several.
        kv_events: Where its KV events come from, if discovery says.
        metrics: The last good scrape; None before the first.
        models: What it serves; None until it has said.
        attributes: Numbers that extractors state of it, by key, such as ``GPUUtilization``.
        alive: False after three failed scrapes in a row of an endpoint that was scraped before.
        scrape_fault: What failed the last scrape; empty where nothing did.
    """

    name: str
    address: str
    host: str = ""
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    rank: int = 0
    kv_events: tuple[KvEvents, ...] = ()
    metrics: EngineMetrics | None = None
    models: ServedModels | None = None
    attributes: Mapping[str, float] = {}
    alive: bool = True
    scrape_fault: str = ""

    @property
    def role(self) -> str | None:
        """The role label's value; None where there is none."""
        return self.labels.get(ROLE_LABEL)
