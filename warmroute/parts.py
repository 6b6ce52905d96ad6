"""The router's parts, built from a configuration and wired together; nothing runs yet. IO."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from router.config.duration import seconds
from router.config.load import Config
from router.config.plugins import Plugin
from router.director import Director
from router.extproc.server import ExternalProcessor
from router.pool.discovery.watch import FileDiscovery
from router.pool.pool import Pool
from router.pool.rewrites import names as rewritten_names
from router.pool.scrape import Scraper
from router.producers.agent_identity import AgentIdentity, AgentIdentityParameters
from router.producers.approx_parameters import ApproxPrefixParameters
from router.producers.approx_prefix import ApproxPrefix
from router.producers.burst_parameters import BurstPrefixParameters
from router.producers.burst_prefix import BurstPrefix
from router.producers.encoder_cache import EncoderCache, EncoderCacheParameters
from router.producers.estimate_parameters import EstimateParameters
from router.producers.inflight import InFlightLoad, InFlightLoadParameters
from router.producers.p2p_source import P2PSource, P2PSourceParameters
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.session import SessionIdParameters, SessionIds
from router.producers.token_estimate import Estimator
from router.producers.token_parameters import (
    RenderParameters,
    SidecarParameters,
    TokenParameters,
    UdsParameters,
)
from router.producers.token_render import RenderClient
from router.producers.token_sidecar import SidecarClient
from router.producers.token_uds import UdsClient
from router.producers.tokens import Backend, TokenProducer
from router.producers.types import Producer
from router.request.parse import Limits
from router.request.parsers import apis
from router.telemetry.decisions import Decisions
from router.telemetry.doctor.doctor import Doctor
from router.telemetry.journal import Journal
from router.telemetry.metrics import Metrics
from router.telemetry.page.tally import Tally
from warmroute.errors import StartError
from warmroute.serve import Options

if TYPE_CHECKING:
    from warmroute.tracing import Tracing

ROOM_BYTES = 1024 * 1024
"""What a gRPC message may carry besides a body."""

LLMD_SOCKET = "tokenizer/tokenizer-uds.socket"
"""Where llm-d's tokenizer service listens, in the folder for temporary files."""

ProducerParameters = (
    AgentIdentityParameters
    | ApproxPrefixParameters
    | BurstPrefixParameters
    | EncoderCacheParameters
    | InFlightLoadParameters
    | P2PSourceParameters
    | PrecisePrefixParameters
    | SessionIdParameters
    | TokenParameters
)
"""Whatever the catalog lists as a producer; a new one must be built below."""


class Parts:
    """The parts of one router, built from its configuration; nothing runs yet."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pool = Pool()
        self.metrics = Metrics(self._is_known_model)
        self.decisions = Decisions()
        self.tracing = _tracing() if options.tracing else None
        traces = () if self.tracing is None else (self.tracing.traces,)
        self.tokenizers: list[Backend] = []
        self.prefixes: list[PrecisePrefix] = []
        self.loads: list[InFlightLoad] = []
        self.producers = self._producers(options.config)
        self.doctor = Doctor(
            self.pool,
            self.decisions,
            prefixes=self.prefixes,
            tokenizers=self.tokenizers,
            loads=self.loads,
            clock=time.time,
        )
        self.doctor.config_warnings = options.config.warnings
        self.tally = Tally(time.time(), self.doctor.comparison)
        self.director = Director(
            profiles=options.config.profiles,
            handler=options.config.handler,
            pool=self.pool,
            producers=self.producers,
            followers=options.config.followers,
            admitters=options.config.admission.admitters,
            apis=apis([parser.value for parser in options.config.parsers]),
            answerers=options.config.answerers,
            observer=Journal(
                self.metrics, self.decisions, self.doctor.comparison, self.tally, *traces
            ),
            rng=random.Random(),
            clock=time.time,
            timer=time.perf_counter,
            explains=options.explains,
            aside=asyncio.to_thread,
            usage_sample=options.usage_sample,
            objectives=lambda: self.discovery.objectives,
            model_rewrites=lambda: self.discovery.model_rewrites,
            rename_answers=options.rename_answers,
            subset_hints=options.subset_hints,
            limits=Limits(
                max_body_bytes=options.max_body_bytes,
                allow_kv_transfer_params=options.allow_kv_transfer_params,
            ),
        )
        self.pool.listen(self.director.newcomers)
        self.pool.listen(self.doctor)
        self.processor = ExternalProcessor(self.director, options.max_body_bytes)
        self.discovery = FileDiscovery(
            options.endpoints, self.pool, watch_file=options.watch_endpoints
        )
        self.scraper = Scraper(
            self.pool,
            interval_s=options.metrics_interval_s,
            path=options.config.metrics.path,
            port=options.config.metrics.port,
        )

    def _is_known_model(self, name: str) -> bool:
        if not name or name in self.pool.models().known:
            return True
        return name in rewritten_names(self.discovery.model_rewrites)

    def _producers(self, config: Config) -> list[Producer]:
        model = next(
            (p.value.model_name for p in config.producers if isinstance(p.value, TokenParameters)),
            "",
        )
        return [self._producer(plugin, config, model) for plugin in config.producers]

    def _producer(self, plugin: Plugin, config: Config, model: str) -> Producer:
        name = plugin.name
        parameters: ProducerParameters = plugin.value
        match parameters:
            case TokenParameters():
                return self._tokens(name, parameters)
            case PrecisePrefixParameters():
                return self._precise(name, parameters, name in config.notified, model)
            case ApproxPrefixParameters():
                approx = ApproxPrefix(name, parameters)
                self.pool.listen(approx.index)
                return approx
            case EncoderCacheParameters():
                encoders = EncoderCache(name, parameters)
                self.pool.listen(encoders.index)
                return encoders
            case BurstPrefixParameters():
                return BurstPrefix(name, parameters)
            case InFlightLoadParameters():
                load = InFlightLoad(name, parameters)
                self.loads.append(load)
                return load
            case P2PSourceParameters():
                return P2PSource(name, parameters)
            case SessionIdParameters():
                return SessionIds(name, parameters)
            case AgentIdentityParameters():
                return AgentIdentity(name, parameters)

    def _precise(
        self, name: str, parameters: PrecisePrefixParameters, notified: bool, model: str
    ) -> PrecisePrefix:
        prefix = PrecisePrefix(
            name,
            parameters,
            resolve=self.pool.resolve_model,
            clock=time.monotonic,
            notified=notified,
            base_model=model or None,
            bounds=self.options.bounds,
        )
        self.prefixes.append(prefix)
        return prefix

    def _tokens(self, name: str, parameters: TokenParameters) -> TokenProducer:
        backend = self._backend(parameters)
        self.tokenizers.append(backend)
        return TokenProducer(
            name,
            backend,
            lambda model: self.pool.resolve_model(model).main,
            time.monotonic,
            parameters.model_name,
        )

    def _backend(self, parameters: TokenParameters) -> Backend:
        largest = self.options.max_body_bytes + ROOM_BYTES
        match parameters:
            case TokenParameters(vllm=RenderParameters() as render):
                return RenderClient(
                    render.url,
                    seconds(render.timeout, "vllm.timeout"),
                    seconds(render.mm_timeout, "vllm.mmTimeout"),
                )
            case TokenParameters(uds_tokenizer_config=UdsParameters() as uds):
                model = uds.model(parameters.model_name) or parameters.model_name
                address = uds.socket_file or str(Path(tempfile.gettempdir(), LLMD_SOCKET))
                return UdsClient(address, model, largest, tcp=uds.use_tcp)
            case TokenParameters(estimate=EstimateParameters() as estimate):
                return Estimator(estimate)
            case _:
                sidecar = parameters.sidecar or SidecarParameters()
                return SidecarClient(
                    sidecar.socket or self.options.tokenizer_socket,
                    seconds(sidecar.timeout, "sidecar.timeout"),
                    largest,
                )


def _tracing() -> Tracing:
    """Raises StartError where OpenTelemetry is not installed."""
    try:
        from warmroute.tracing import Tracing
    except ImportError as error:
        raise StartError(f"--tracing: pip install 'warmroute[otel]' ({error})") from error
    return Tracing()
