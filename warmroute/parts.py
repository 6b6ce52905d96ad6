"""The router's parts that outlive a configuration, wired together; nothing runs yet. IO."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from router import catalog
from router.director import Director
from router.extproc.server import ExternalProcessor
from router.lineup import Lineup
from router.policy import Policy
from router.pool.discovery.watch import FileDiscovery
from router.pool.pool import Pool
from router.pool.rewrites import names as rewritten_names
from router.request.parse import Limits
from router.scheduling.timed import timed
from router.scheduling.types import Picker, Profile
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import Decisions
from router.telemetry.journal import Journal
from router.telemetry.metrics import Metrics
from router.telemetry.page.tally import Tally
from warmroute.builder import Builder
from warmroute.errors import StartError
from warmroute.serve import Options

if TYPE_CHECKING:
    from warmroute.tracing import Tracing


class Parts:
    """The parts of one router; nothing runs yet, and no producer is built.

    Attributes:
        config: What is in force.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pool = Pool()
        self.config = options.config
        self.metrics = Metrics(
            self._is_known_model,
            endpoint=self.name_of,
            plugin=self._type_of,
            legacy_names=options.legacy_metric_names,
        )
        self.decisions = Decisions()
        self.comparison = Comparison()
        self.tally = Tally(time.time(), self.comparison)
        self.tracing = _tracing() if options.tracing else None
        traces = () if self.tracing is None else (self.tracing.traces,)
        self.builder = Builder(options, self.pool)
        self.director = Director(
            Lineup(profiles=options.config.profiles, handler=options.config.handler),
            self.pool,
            Journal(self.metrics, self.decisions, self.comparison, self.tally, *traces),
            self._policy(),
            rng=random.Random(),
            clock=time.time,
            timer=time.perf_counter,
            aside=asyncio.to_thread,
        )
        self.pool.listen(self.director.newcomers)
        self.processor = ExternalProcessor(
            self.director, options.max_body_bytes, tells_ends=options.stream_metrics
        )
        self.discovery = FileDiscovery(
            options.endpoints, self.pool, watch_file=options.watch_endpoints
        )

    def timed(self, profiles: Mapping[str, Profile]) -> Mapping[str, Profile]:
        """The same profiles; the metrics are told what each plugin takes."""
        return timed(profiles, self.metrics.timer, time.perf_counter, _picker_name)

    def name_of(self, address: str) -> tuple[str, str]:
        """Name and namespace of an endpoint; its address where it is none any more."""
        endpoint = self.pool.get(address)
        return (address, "") if endpoint is None else (endpoint.name, endpoint.namespace)

    def _type_of(self, name: str) -> str:
        plugin = self.config.plugins.get(name)
        return name if plugin is None else plugin.type

    def _policy(self) -> Policy:
        options = self.options
        return Policy(
            limits=Limits(
                max_body_bytes=options.max_body_bytes,
                allow_kv_transfer_params=options.allow_kv_transfer_params,
            ),
            usage_sample=options.usage_sample,
            subset_hints=options.subset_hints,
            rename_answers=options.rename_answers,
            explains=options.explains,
            emit_scores=options.emit_scores,
            objectives=lambda: self.discovery.objectives,
            model_rewrites=lambda: self.discovery.model_rewrites,
        )

    def _is_known_model(self, name: str) -> bool:
        if not name or name in self.pool.models().known:
            return True
        return name in rewritten_names(self.discovery.model_rewrites)


def _picker_name(picker: Picker) -> str:
    """Its type: profiles know pickers without a name."""
    kinds = (kind for kind, cls in catalog.PICKERS.items() if isinstance(picker, cls))
    return next(kinds, type(picker).__name__)


def _tracing() -> Tracing:
    """Raises StartError where OpenTelemetry is not installed."""
    try:
        from warmroute.tracing import Tracing
    except ImportError as error:
        raise StartError(f"--tracing: pip install 'warmroute[otel]' ({error})") from error
    return Tracing()
