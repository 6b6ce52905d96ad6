"""Parameters of core-metrics-extractor: kinds of engines, and what each calls its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from router.pool import metric_specs
from router.pool.dialects import (
    DEFAULT_ENGINE,
    DIALECTS,
    ENGINE_LABELS,
    CacheInfo,
    Dialect,
    Dialects,
    Family,
)

_Spec = str
"""``metric_name{label=value,…}``; empty: as built in."""

RESERVED = "default"
"""A name that no kind of engine may have (llm-d)."""

_BLANK = Dialect(waiting=(), running=())


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class CustomMetric(_Camel, frozen=True):
    """A further figure, stated as an attribute of the endpoint.

    Attributes:
        attribute_key: Name of the attribute.
        metric_spec: The metric; the mean where several series match.
    """

    attribute_key: Annotated[str, msgspec.Meta(min_length=1)]
    metric_spec: _Spec

    def __post_init__(self) -> None:
        metric_specs.family(self.metric_spec)


class EngineConfig(_Camel, frozen=True):
    """One kind of engine. What is left out is as built in for that name, if there is such.

    Attributes:
        name: Value of the engine label.
        queued_requests_spec: Requests waiting; several series are summed.
        running_requests_spec: Requests being computed; likewise.
        kv_usage_spec: KV usage; the mean of several series.
        lora_spec: LoRA adapters, in the labels of vLLM's metric; the newest series counts.
        cache_info_spec: Metric whose labels describe the cache.
        cache_block_size_label_name: Its label with the block size.
        cache_num_blocks_label_name: Its label with the number of blocks.
        cache_block_size_spec: Block size as a value.
        cache_num_blocks_spec: Number of blocks as a value.
        custom_metrics: Further figures.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    queued_requests_spec: _Spec = ""
    running_requests_spec: _Spec = ""
    kv_usage_spec: _Spec = ""
    lora_spec: _Spec = ""
    cache_info_spec: _Spec = ""
    cache_block_size_label_name: str = ""
    cache_num_blocks_label_name: str = ""
    cache_block_size_spec: _Spec = ""
    cache_num_blocks_spec: _Spec = ""
    custom_metrics: tuple[CustomMetric, ...] = ()

    def __post_init__(self) -> None:
        if self.name == RESERVED:
            raise ValueError(f"the name {RESERVED!r} is reserved; use defaultEngine")
        self.dialect(_BLANK)

    def dialect(self, base: Dialect) -> Dialect:
        """The built-in one with what is given here. Raises ValueError."""
        custom = tuple(
            (metric.attribute_key, metric_specs.family(metric.metric_spec))
            for metric in self.custom_metrics
        )
        return msgspec.structs.replace(
            base,
            waiting=_families(self.queued_requests_spec, base.waiting),
            running=_families(self.running_requests_spec, base.running),
            kv_usage=_families(self.kv_usage_spec, base.kv_usage),
            adapters=metric_specs.family(self.lora_spec).name if self.lora_spec else base.adapters,
            cache=self._cache(base.cache),
            block_size=_families(self.cache_block_size_spec, base.block_size),
            gpu_blocks=_families(self.cache_num_blocks_spec, base.gpu_blocks),
            custom=(*base.custom, *custom),
        )

    def _cache(self, base: CacheInfo | None) -> CacheInfo | None:
        if self.cache_block_size_spec or self.cache_num_blocks_spec:
            return None
        blank = base or CacheInfo(name="", block_size="block_size", gpu_blocks="num_gpu_blocks")
        named = metric_specs.family(self.cache_info_spec).name if self.cache_info_spec else ""
        made = CacheInfo(
            name=named or blank.name,
            block_size=self.cache_block_size_label_name or blank.block_size,
            gpu_blocks=self.cache_num_blocks_label_name or blank.gpu_blocks,
        )
        return made if made.name else None


class CoreMetricsParameters(_Camel, frozen=True):
    """core-metrics-extractor: queue, running requests and KV usage of each endpoint.

    Attributes:
        engine_label_key: Endpoint label that names the kind of engine.
        default_engine: Kind of an endpoint that does not say it.
        engine_configs: Kinds of engines besides those built in, or other names for their figures.
    """

    engine_label_key: Annotated[str, msgspec.Meta(min_length=1)] = ENGINE_LABELS[0]
    default_engine: str = DEFAULT_ENGINE
    engine_configs: tuple[EngineConfig, ...] = ()

    def __post_init__(self) -> None:
        names = [config.name for config in self.engine_configs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"engineConfigs names {repeated[0]!r} twice")
        if self.default_engine not in self._table():
            known = ", ".join(self._table())
            raise ValueError(f"defaultEngine {self.default_engine!r} is none of: {known}")

    def dialects(self) -> Dialects:
        """How pages are read."""
        keys = dict.fromkeys((self.engine_label_key, *ENGINE_LABELS))
        return Dialects(labels=tuple(keys), default=self.default_engine, table=self._table())

    def _table(self) -> Mapping[str, Dialect]:
        own = {c.name: c.dialect(DIALECTS.get(c.name, _BLANK)) for c in self.engine_configs}
        return {**DIALECTS, **own}


def _families(spec: _Spec, built_in: tuple[Family, ...]) -> tuple[Family, ...]:
    return (metric_specs.family(spec),) if spec else built_in
