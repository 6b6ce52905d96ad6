"""Envoy's two clusters: the engines, and the router. Needs the `envoy` extra."""

from __future__ import annotations

from datetime import timedelta
from pathlib import PurePosixPath

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
    ClusterLbPolicy,
    ClusterOriginalDstLbConfig,
    LoadBalancingPolicy,
    LoadBalancingPolicyPolicy,
)
from envoy_data_plane.envoy.config.core.v3 import (
    Address,
    ConfigSource,
    Http2ProtocolOptions,
    PathConfigSource,
    Pipe,
    SocketAddress,
    TransportSocket,
    TypedExtensionConfig,
    WatchedDirectory,
)
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.envoy.extensions.load_balancing_policies.override_host.v3 import (
    OverrideHost,
    OverrideHostOverrideHostSource,
)
from envoy_data_plane.envoy.extensions.load_balancing_policies.round_robin.v3 import RoundRobin
from envoy_data_plane.envoy.extensions.load_balancing_policies.subset.v3 import (
    Subset,
    SubsetLbSubsetFallbackPolicy,
    SubsetLbSubsetSelector,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CommonTlsContext,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptions,
    HttpProtocolOptionsExplicitHttpConfig,
)
from envoy_data_plane.google.protobuf import Any

from router.extproc import headers as names
from warmroute.envoy_settings import ENGINES, EnvoySettings

CONNECT_TIMEOUT = timedelta(seconds=1)

MAX_CONCURRENT = 40_000
"""Circuit breaker: connections, pending requests and requests; llm-d's charts use the same."""


def engines(settings: EnvoySettings) -> Cluster:
    """Takes the endpoint, or with an EDS file the endpoints, that the router names."""
    if settings.eds_file is None:
        return _original_dst()
    return _override_host(settings.eds_file)


def _original_dst() -> Cluster:
    return Cluster(
        name=ENGINES,
        type=ClusterDiscoveryType.ORIGINAL_DST,
        lb_policy=ClusterLbPolicy.CLUSTER_PROVIDED,
        connect_timeout=CONNECT_TIMEOUT,
        original_dst_lb_config=ClusterOriginalDstLbConfig(
            use_http_header=True, http_header_name=names.DESTINATION
        ),
        circuit_breakers=_breakers(),
    )


def _override_host(eds_file: str) -> Cluster:
    folder = WatchedDirectory(path=str(PurePosixPath(eds_file).parent))
    path = PathConfigSource(path=eds_file, watched_directory=folder)
    source = OverrideHostOverrideHostSource(header=names.DESTINATION)
    policy = OverrideHost(
        override_host_sources=[source],
        fallback_policy=_nobody(),
    )
    return Cluster(
        name=ENGINES,
        type=ClusterDiscoveryType.EDS,
        connect_timeout=CONNECT_TIMEOUT,
        eds_cluster_config=ClusterEdsClusterConfig(
            eds_config=ConfigSource(path_config_source=path)
        ),
        load_balancing_policy=_policy("override_host", Any.pack(policy)),
        circuit_breakers=_breakers(),
    )


def _nobody() -> LoadBalancingPolicy:
    """Picks no endpoint: where none of the list can be reached, no other one may answer.

    A policy of that name does not exist; this one picks among endpoints that carry a key which no
    request asks for.
    """
    policy = Subset(
        fallback_policy=SubsetLbSubsetFallbackPolicy.NO_FALLBACK,
        subset_selectors=[SubsetLbSubsetSelector(keys=["nobody"])],
        subset_lb_policy=_policy("round_robin", Any.pack(RoundRobin())),
    )
    return _policy("subset", Any.pack(policy))


def _policy(name: str, packed: Any) -> LoadBalancingPolicy:
    extension = TypedExtensionConfig(
        name=f"envoy.load_balancing_policies.{name}", typed_config=packed
    )
    return LoadBalancingPolicy(
        policies=[LoadBalancingPolicyPolicy(typed_extension_config=extension)]
    )


def router(settings: EnvoySettings) -> Cluster:
    """The ext_proc service."""
    in_file_system = settings.router_socket is not None
    http2 = HttpProtocolOptions(
        explicit_http_config=HttpProtocolOptionsExplicitHttpConfig(
            http2_protocol_options=Http2ProtocolOptions()
        )
    )
    endpoint = Endpoint(address=_router_address(settings))
    tls = UpstreamTlsContext(common_tls_context=CommonTlsContext(alpn_protocols=["h2"]))
    transport = TransportSocket(name="envoy.transport_sockets.tls", typed_config=Any.pack(tls))
    return Cluster(
        name="warmroute",
        # A hostname is looked up again and again; a path is not looked up at all.
        type=ClusterDiscoveryType.STATIC if in_file_system else ClusterDiscoveryType.STRICT_DNS,
        connect_timeout=CONNECT_TIMEOUT,
        load_assignment=ClusterLoadAssignment(
            cluster_name="warmroute",
            endpoints=[LocalityLbEndpoints(lb_endpoints=[LbEndpoint(endpoint=endpoint)])],
        ),
        typed_extension_protocol_options={
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": Any.pack(http2)
        },
        transport_socket=transport if settings.router_tls and not in_file_system else None,
        circuit_breakers=_breakers(),
    )


def _router_address(settings: EnvoySettings) -> Address:
    if settings.router_socket is not None:
        return Address(pipe=Pipe(path=settings.router_socket))
    place = SocketAddress(address=settings.router_host, port_value=settings.router_port)
    return Address(socket_address=place)


def _breakers() -> CircuitBreakers:
    threshold = CircuitBreakersThresholds(
        max_connections=MAX_CONCURRENT,
        max_pending_requests=MAX_CONCURRENT,
        max_requests=MAX_CONCURRENT,
    )
    return CircuitBreakers(thresholds=[threshold])
