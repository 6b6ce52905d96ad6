"""Where an endpoint's KV events come from, and which endpoint a topic means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from indexer.block import Holder
from indexer.central import Key
from indexer.feed import Source
from indexer.storage import is_shared, shared_by
from router.pool.endpoint import Endpoint, KvEvents
from router.producers.prefix_parameters import KvEvents as Parameters

CENTRAL_FILTER = "kv@"
"""Topics that count on a socket that engines connect to, where nothing is said (llm-d)."""


ENGINE_LABEL = "llm-d.ai/engine-type"
POLLED_ENGINE = "trtllm-serve"
"""Value of the label where events are fetched over HTTP."""


def polled(endpoint: Endpoint) -> Source | None:
    """The stream to fetch from an endpoint; None where its events come over ZMQ."""
    if endpoint.labels.get(ENGINE_LABEL) != POLLED_ENGINE:
        return None
    holder = Holder(endpoint.address, endpoint.rank)
    return Source(holder, f"http://{endpoint.address}/kv_cache_events")


def sources(endpoint: Endpoint, parameters: Parameters, *, notified: bool) -> Iterator[Source]:
    """Event streams to connect to; `notified`: an endpoint that names none has one all the same."""
    topics = parameters.topic_filter
    if polled(endpoint) is not None:
        return
    if endpoint.kv_events:
        for stream in endpoint.kv_events:
            holder = Holder(endpoint.address, stream.rank)
            replay = stream.replay or _replay(endpoint, stream.rank, parameters)
            yield Source(holder, stream.endpoint, topics, replay=replay)
    elif notified and parameters.discover_pods:
        holder = Holder(endpoint.address, endpoint.rank)
        port = parameters.pod_discovery_config.socket_port + endpoint.rank
        replay = _replay(endpoint, endpoint.rank, parameters)
        yield Source(holder, dial(endpoint, port), topics, replay=replay)


class Locator:
    """Tells whose events a topic announces, on the socket that engines connect to."""

    def __init__(self, parameters: Parameters, endpoints: Callable[[], Sequence[Endpoint]]) -> None:
        self._parameters = parameters
        self._endpoints = endpoints
        self._known: Sequence[Endpoint] | None = None
        self._by_address: dict[str, Endpoint | None] = {}

    @property
    def topic_filter(self) -> str:
        return self._parameters.topic_filter or CENTRAL_FILTER

    def __call__(self, key: Key) -> Source | None:
        """The address is an endpoint's `ip:port`, or an `ip` behind which there is only one.

        An endpoint that is one rank of several has that rank, whatever its messages say.
        """
        if is_shared(Holder(key.address)) and key.model:
            storage = shared_by(key.model)
            return Source(storage, self._parameters.zmq_endpoint, unordered=True)
        endpoint = self._find(key.address)
        if endpoint is None:
            return None
        holder = Holder(endpoint.address, endpoint.rank or key.rank)
        told = next((e for e in endpoint.kv_events if e.rank == holder.rank), KvEvents(endpoint=""))
        replay = told.replay or _replay(endpoint, holder.rank, self._parameters)
        return Source(holder, self._parameters.zmq_endpoint, replay=replay)

    def _find(self, address: str) -> Endpoint | None:
        endpoints = self._endpoints()
        if endpoints is not self._known:
            self._known = endpoints
            self._by_address.clear()
            for endpoint in endpoints:
                host, port = _host(endpoint), endpoint.address.rpartition(":")[2]
                self._by_address[host] = None if host in self._by_address else endpoint
                self._by_address[f"{host}:{port}"] = endpoint
                self._by_address[endpoint.address] = endpoint
        return self._by_address.get(address)


def _replay(endpoint: Endpoint, rank: int, parameters: Parameters) -> str | None:
    port = parameters.pod_discovery_config.replay_socket_port
    return dial(endpoint, port + rank) if port else None


def dial(endpoint: Endpoint, port: int) -> str:
    """A ZMQ address on the endpoint's host."""
    host = _host(endpoint)
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def _host(endpoint: Endpoint) -> str:
    return urlsplit(f"//{endpoint.address}").hostname or ""
