"""Builds a producer of a configuration, with everything that must run beside it. IO."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from router.config.duration import seconds
from router.config.load import Config
from router.config.plugins import Plugin
from router.pool.pool import Listener, Pool
from router.pool.topology import TopologyLabels
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
from router.producers.topology import Topology
from router.producers.types import Producer
from warmroute.serve import Options

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


class Member:
    """A producer, and what must run, be told or be shown beside it.

    Attributes:
        made_of: What it was built from; an equal one would be the same.
        backend: Where its token ids come from.
        prefix: Itself, where it follows events.
        load: Itself, where it counts requests.
        listener: Is told of endpoints.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        backend: Backend | None = None,
        prefix: PrecisePrefix | None = None,
        load: InFlightLoad | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.producer = producer
        self.made_of: tuple[Any, ...] = ()
        self.backend = backend
        self.prefix = prefix
        self.load = load
        self.listener = listener


class Builder:
    """Builds producers; nothing runs yet."""

    def __init__(self, options: Options, pool: Pool) -> None:
        self._options = options
        self._pool = pool

    def members(self, config: Config, running: Iterable[Member] = ()) -> list[Member]:
        """One for each producer of the configuration, in its order.

        Of those that are running, the ones that would be built anew the same are kept.
        """
        known = {member.made_of[0]: member for member in running}
        places = [_topology(name, labels) for name, labels in config.data.topologies]
        return [*places, *(self._member(plugin, config, known) for plugin in config.producers)]

    def _member(self, plugin: Plugin, config: Config, known: Mapping[str, Member]) -> Member:
        parameters: ProducerParameters = plugin.value
        made_of: tuple[Any, ...] = (plugin.name, plugin.type, parameters)
        if isinstance(parameters, PrecisePrefixParameters):
            media = config.motor.media if config.motor is not None else None
            made_of += (plugin.name in config.notified, _base_model(config), media)
        running = known.get(plugin.name)
        if running is not None and running.made_of == made_of:
            return running
        member = self._built(plugin.name, parameters, config)
        member.made_of = made_of
        return member

    def _built(self, name: str, parameters: ProducerParameters, config: Config) -> Member:
        match parameters:
            case TokenParameters():
                return self._tokens(name, parameters)
            case PrecisePrefixParameters():
                return self._precise(name, parameters, config)
            case ApproxPrefixParameters():
                approx = ApproxPrefix(name, parameters)
                return Member(approx, listener=approx.index)
            case EncoderCacheParameters():
                encoders = EncoderCache(name, parameters)
                return Member(encoders, listener=encoders.index)
            case BurstPrefixParameters():
                return Member(BurstPrefix(name, parameters))
            case InFlightLoadParameters():
                load = InFlightLoad(name, parameters)
                return Member(load, load=load)
            case P2PSourceParameters():
                return Member(P2PSource(name, parameters))
            case SessionIdParameters():
                return Member(SessionIds(name, parameters))
            case AgentIdentityParameters():
                return Member(AgentIdentity(name, parameters))

    def _precise(self, name: str, parameters: PrecisePrefixParameters, config: Config) -> Member:
        prefix = PrecisePrefix(
            name,
            parameters,
            resolve=self._pool.resolve_model,
            clock=time.monotonic,
            notified=name in config.notified,
            base_model=_base_model(config) or None,
            bounds=self._options.bounds,
            media=config.motor.media if config.motor is not None else None,
        )
        return Member(prefix, prefix=prefix)

    def _tokens(self, name: str, parameters: TokenParameters) -> Member:
        backend = self._backend(parameters)
        producer = TokenProducer(
            name,
            backend,
            lambda model: self._pool.resolve_model(model).main,
            time.monotonic,
            parameters.model_name,
        )
        return Member(producer, backend=backend)

    def _backend(self, parameters: TokenParameters) -> Backend:
        largest = self._options.max_body_bytes + ROOM_BYTES
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
                    sidecar.socket or self._options.tokenizer_socket,
                    seconds(sidecar.timeout, "sidecar.timeout"),
                    largest,
                )


def _topology(name: str, labels: TopologyLabels) -> Member:
    member = Member(Topology(name, labels))
    member.made_of = (name, labels)
    return member


def _base_model(config: Config) -> str:
    """The model that a configuration is for, if it names one."""
    if config.motor is not None and config.motor.model:
        return config.motor.model
    names = (p.value.model_name for p in config.producers if isinstance(p.value, TokenParameters))
    return next(names, "")
