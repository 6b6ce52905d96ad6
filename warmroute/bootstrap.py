"""Envoy's bootstrap, written as typed objects. Needs the `envoy` extra.

Why each setting is there stands in envoy/README.md, beside the rendered files.
"""

from __future__ import annotations

import json
from datetime import timedelta

from envoy_data_plane.envoy.config.accesslog.v3 import AccessLogFilter, ExtensionFilter
from envoy_data_plane.envoy.config.bootstrap.v3 import Admin, Bootstrap, BootstrapStaticResources
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutation as MutationRule
from envoy_data_plane.envoy.config.core.v3 import (
    Address,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    Http1ProtocolOptions,
    Node,
    SocketAddress,
    SubstitutionFormatString,
)
from envoy_data_plane.envoy.config.listener.v3 import Filter, FilterChain, Listener
from envoy_data_plane.envoy.config.route.v3 import (
    RetryPolicy,
    Route,
    RouteAction,
    RouteConfiguration,
    RouteMatch,
    VirtualHost,
)
from envoy_data_plane.envoy.extensions.access_loggers.filters.cel.v3 import ExpressionFilter
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    MetadataOptions,
    MetadataOptionsMetadataNamespaces,
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
from envoy_data_plane.envoy.type.v3 import HttpStatus, StatusCode
from envoy_data_plane.google.protobuf import Any, Struct

from router.extproc import headers as names
from router.extproc.metadata import SUBSET_NAMESPACE, UPSTREAM
from warmroute import clusters
from warmroute.envoy_settings import ENGINES, EnvoySettings

MESSAGE_TIMEOUT = timedelta(seconds=30)
"""How long Envoy waits for one answer; longer than any budget of the router."""

RETRIES = 2
"""Further endpoints that are tried where one cannot be reached."""

IDLE_TIMEOUT = timedelta(hours=1)
"""A stream without a byte for this long is dead; a queued prompt can be silent for minutes."""


def render(settings: EnvoySettings) -> str:
    """The bootstrap as JSON, which is YAML, too."""
    return json.dumps(bootstrap(settings).to_dict(), indent=2) + "\n"


def bootstrap(settings: EnvoySettings) -> Bootstrap:
    """The bootstrap as typed objects."""
    admin = (
        Admin(address=_address("127.0.0.1", settings.admin_port)) if settings.admin_port else None
    )
    return Bootstrap(
        node=Node(id="warmroute", cluster="warmroute"),
        admin=admin,
        static_resources=BootstrapStaticResources(
            listeners=[_listener(settings)],
            clusters=[clusters.engines(settings), clusters.router(settings)],
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
        http_protocol_options=Http1ProtocolOptions(accept_http_10=True),
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
    action = RouteAction(
        cluster=ENGINES,
        timeout=timedelta(0),
        idle_timeout=IDLE_TIMEOUT,
        retry_policy=_retries() if settings.eds_file is not None else None,
    )
    host = VirtualHost(
        name=ENGINES,
        domains=["*"],
        routes=[Route(match=RouteMatch(prefix="/"), route=action)],
        request_body_buffer_limit=settings.max_body_bytes,
    )
    return RouteConfiguration(name=ENGINES, virtual_hosts=[host])


def _retries() -> RetryPolicy:
    """Only where an engine has not begun to compute: nothing is computed twice."""
    return RetryPolicy(
        retry_on="connect-failure,refused-stream,reset-before-request",
        num_retries=RETRIES,
        host_selection_retry_max_attempts=RETRIES + 1,
    )


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
            response_body_mode=(
                body.FULL_DUPLEX_STREAMED if settings.full_duplex_response else body.NONE
            ),
            response_trailer_mode=send,
        ),
        message_timeout=MESSAGE_TIMEOUT,
        metadata_options=_metadata_options(),
        response_attributes=[UPSTREAM] if settings.eds_file is not None else [],
        failure_mode_allow=False,
        status_on_error=HttpStatus(code=StatusCode.ServiceUnavailable),
        allow_mode_override=True,
        # The router sends bodies back as they were, or with a length of its own.
        allow_content_length_header=settings.full_duplex,
    )


def _metadata_options() -> MetadataOptions:
    """The router learns which endpoints are allowed, and Envoy which ones were picked."""
    return MetadataOptions(
        forwarding_namespaces=MetadataOptionsMetadataNamespaces(
            untyped=[names.METADATA_NAMESPACE, SUBSET_NAMESPACE]
        ),
        receiving_namespaces=MetadataOptionsMetadataNamespaces(untyped=[names.METADATA_NAMESPACE]),
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
