"""Envoy's bootstrap, written as typed objects. Needs the `envoy` extra.

Why each setting is there stands in envoy/README.md, beside the rendered files.
"""

from __future__ import annotations

import json
from datetime import timedelta

import msgspec
from envoy_data_plane.envoy.config.accesslog.v3 import AccessLogFilter, ExtensionFilter
from envoy_data_plane.envoy.config.bootstrap.v3 import Admin, Bootstrap, BootstrapStaticResources
from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterDiscoveryType,
    ClusterLbPolicy,
    ClusterOriginalDstLbConfig,
)
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as MutationRule
from envoy_data_plane.envoy.config.core.v3 import (
    Address,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    Http2ProtocolOptions,
    Node,
    SocketAddress,
    SubstitutionFormatString,
    TransportSocket,
)
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.envoy.config.listener.v3 import Filter, FilterChain, Listener
from envoy_data_plane.envoy.config.route.v3 import (
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel.v3 import ExpressionFilter
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.filters.http.header_mutation.v3 import (
    HeaderMutation,
    Mutations,
)
from envoy_data_plane.envoy.extensions.filters.http.router.v3 import Router
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import (
    HttpConnectionManager,
    HttpConnectionManagerServerHeaderTransformation,
    HttpFilter,
    LocalReplyConfig,
    ResponseMapper,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CommonTlsContext,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsExplicitHttpConfig,
)
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode
from envoy_data_plane.google.protobuf import Any, Struct

from router.extproc import headers as names

MESSAGE_TIMEOUT = timedelta(seconds=30)
"""How long Envoy waits for one answer; longer than any budget of the router."""

IDLE_TIMEOUT = timedelta(hours=1)
"""A stream without a byte for this long is dead; a queued prompt can be silent for minutes."""

CONNECT_TIMEOUT = timedelta(seconds=1)

MAX_CONCURRENT = 40_000
"""Circuit breaker: connections, pending requests and requests; llm-d's charts use the same."""


class EnvoySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between bootstraps.

    Attributes:
        host: Address the listener binds.
        port: Its port.
        admin_port: Port of Envoy's admin page on loopback; None: no admin page.
        router_host: Where the router's ext_proc service is: an IP address or a hostname.
        router_port: Its port.
        max_body_bytes: Largest request body; one byte more is a 413.
        full_duplex: Request bodies are streamed to the router and back instead of buffered.
        router_tls: The router's port speaks TLS; its certificate is self-signed, so not verified.
    """

    host: str = "0.0.0.0"
    port: int = 8080
    admin_port: int | None = None
    router_host: str = "127.0.0.1"
    router_port: int = 9002
    max_body_bytes: int = 64 * 1024 * 1024
    full_duplex: bool = False
    router_tls: bool = False


def render(settings: EnvoySettings) -> str:
    """The bootstrap as JSON, which is YAML, too."""
    return json.dumps(bootstrap(settings).to_dict(), indent=2) + "\n"


def bootstrap(settings: EnvoySettings) -> Bootstrap:
    """The bootstrap for the original-destination cluster."""
    admin = (
        Admin(address=_address("127.0.0.1", settings.admin_port)) if settings.admin_port else None
    )
    return Bootstrap(
        node=Node(id="warmroute", cluster="warmroute"),
        admin=admin,
        static_resources=BootstrapStaticResources(
            listeners=[_listener(settings)], clusters=[_engines(), _router(settings)]
        ),
    )


def _address(host: str, port: int) -> Address:
    return Address(socket_address=SocketAddress(address=host, port_value=port))


def _listener(settings: EnvoySettings) -> Listener:
    manager = HttpConnectionManager(
        stat_prefix="ingress",
        route_config=_routes(settings),
        http_filters=[
            HttpFilter(name="drop_routing_headers", typed_config=Any.pack(_drop_routing_headers())),
            HttpFilter(name="ext_proc", typed_config=Any.pack(_ext_proc(settings))),
            HttpFilter(name="router", typed_config=Any.pack(Router(suppress_envoy_headers=True))),
        ],
        local_reply_config=LocalReplyConfig(mappers=[_too_large(settings), _no_answer()]),
        server_header_transformation=HttpConnectionManagerServerHeaderTransformation.PASS_THROUGH,
        preserve_external_request_id=True,
        stream_idle_timeout=IDLE_TIMEOUT,
    )
    manager_filter = Filter(name="http_connection_manager", typed_config=Any.pack(manager))
    return Listener(
        name="ingress",
        address=_address(settings.host, settings.port),
        filter_chains=[FilterChain(filters=[manager_filter])],
    )


def _routes(settings: EnvoySettings) -> RouteConfiguration:
    action = RouteAction(cluster="engines", timeout=timedelta(0), idle_timeout=IDLE_TIMEOUT)
    host = VirtualHost(
        name="engines",
        domains=["*"],
        routes=[Route(match=RouteMatch(prefix="/"), route=action)],
        request_body_buffer_limit=settings.max_body_bytes,
    )
    return RouteConfiguration(name="engines", virtual_hosts=[host])


def _drop_routing_headers() -> HeaderMutation:
    rules = [MutationRule(remove=name) for name in names.ROUTING]
    return HeaderMutation(mutations=Mutations(request_mutations=rules))


def _ext_proc(settings: EnvoySettings) -> ExternalProcessor:
    send, skip = ProcessingModeHeaderSendMode.SEND, ProcessingModeHeaderSendMode.SKIP
    body = ProcessingModeBodySendMode
    return ExternalProcessor(
        grpc_service=GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name="warmroute")),
        processing_mode=ProcessingMode(
            request_header_mode=send,
            request_body_mode=body.FULL_DUPLEX_STREAMED if settings.full_duplex else body.BUFFERED,
            request_trailer_mode=send if settings.full_duplex else skip,
            response_header_mode=send,
            response_body_mode=body.NONE,
            response_trailer_mode=send,
        ),
        message_timeout=MESSAGE_TIMEOUT,
        failure_mode_allow=False,
        status_on_error=HttpStatus(code=StatusCode.ServiceUnavailable),
        allow_mode_override=True,
        # The router sends bodies back as they were, or with a length of its own.
        allow_content_length_header=settings.full_duplex,
    )


def _too_large(settings: EnvoySettings) -> ResponseMapper:
    """Answers a body above the cap in the OpenAI error shape."""
    return _mapper(
        'response.code_details == "request_payload_too_large"',
        message=f"the request body exceeds {settings.max_body_bytes} bytes",
        kind="RequestEntityTooLarge",
    )


def _no_answer() -> ResponseMapper:
    """The same where an engine or the router cannot be reached; the router's own refusals pass."""
    return _mapper(
        'response.code_details.startsWith("upstream_") || '
        'response.code_details.startsWith("no_healthy_upstream") || '
        'response.code_details.startsWith("ext_proc_")',
        message="no answer from the model server: %RESPONSE_CODE_DETAILS%",
        kind="ServiceUnavailable",
    )


def _mapper(expression: str, *, message: str, kind: str) -> ResponseMapper:
    extension = ExtensionFilter(
        name="cel", typed_config=Any.pack(ExpressionFilter(expression=expression))
    )
    error = {"message": message, "type": kind, "param": None, "code": "%RESPONSE_CODE%"}
    body = SubstitutionFormatString(json_format=Struct.from_dict({"error": error}))
    return ResponseMapper(
        filter=AccessLogFilter(extension_filter=extension), body_format_override=body
    )


def _engines() -> Cluster:
    return Cluster(
        name="engines",
        type=ClusterDiscoveryType.ORIGINAL_DST,
        lb_policy=ClusterLbPolicy.CLUSTER_PROVIDED,
        connect_timeout=CONNECT_TIMEOUT,
        original_dst_lb_config=ClusterOriginalDstLbConfig(
            use_http_header=True, http_header_name=names.DESTINATION
        ),
        circuit_breakers=_breakers(),
    )


def _router(settings: EnvoySettings) -> Cluster:
    http2 = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(
            http2_protocol_options=Http2ProtocolOptions()
        )
    )
    endpoint = Endpoint(address=_address(settings.router_host, settings.router_port))
    tls = UpstreamTlsContext(common_tls_context=CommonTlsContext(alpn_protocols=["h2"]))
    transport = TransportSocket(name="envoy.transport_sockets.tls", typed_config=Any.pack(tls))
    return Cluster(
        name="warmroute",
        type=ClusterDiscoveryType.STRICT_DNS,
        connect_timeout=CONNECT_TIMEOUT,
        load_assignment=ClusterLoadAssignment(
            cluster_name="warmroute",
            endpoints=[LocalityLbEndpoints(lb_endpoints=[LbEndpoint(endpoint=endpoint)])],
        ),
        typed_extension_protocol_options={
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": Any.pack(http2)
        },
        transport_socket=transport if settings.router_tls else None,
        circuit_breakers=_breakers(),
    )


def _breakers() -> CircuitBreakers:
    threshold = CircuitBreakersThresholds(
        max_connections=MAX_CONCURRENT,
        max_pending_requests=MAX_CONCURRENT,
        max_requests=MAX_CONCURRENT,
    )
    return CircuitBreakers(thresholds=[threshold])
