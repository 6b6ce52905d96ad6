"""Parameters of the data-layer plugins: where endpoints and their figures come from."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class MetricsSourceParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """metrics-data-source: each endpoint's metrics page, read at an interval.

    Attributes:
        scheme: Only plain HTTP is spoken.
        path: Path of the page.
        port: Port of the page; the endpoint's own where not given.
        interval: Time between two reads, as a Go duration.
        insecure_skip_verify: Accepted; has no effect on plain HTTP.
    """

    scheme: Literal["http"] = "http"
    path: Annotated[str, msgspec.Meta(pattern="^/")] = "/metrics"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    interval: str = "1s"
    insecure_skip_verify: bool = True


class CoreMetricsParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """core-metrics-extractor: queue, running requests and KV usage of each endpoint.

    Takes no parameters.
    """


class EndpointNotificationParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """endpoint-notification-source: tells its extractors of endpoints that come and go.

    Takes no parameters.
    """


class FileDiscoveryParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """file-discovery: endpoints from a file.

    Attributes:
        path: The file.
        watch_file: Read it again when it changes.
    """

    path: Annotated[str, msgspec.Meta(min_length=1)]
    watch_file: bool = False
