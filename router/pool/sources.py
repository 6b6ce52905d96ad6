"""Parameters of the data-layer plugins: where endpoints and their figures come from."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from router.config.duration import seconds

MIN_INTERVAL_S = 0.05
"""More often than that reading costs more than it tells (llm-d has the same floor)."""

_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
_Path = Annotated[str, msgspec.Meta(pattern="^/", examples=["/metrics"])]


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class PageParameters(_Camel, frozen=True, kw_only=True):
    """A page of each endpoint that is read again and again.

    Attributes:
        scheme: How it is asked for.
        path: Its path.
        port: Its port; the endpoint's own where not given.
        interval: Time between two reads, as a Go duration.
        insecure_skip_verify: With https: any certificate will do.
        ca_cert_path: With https: file of the authority whose certificates are trusted.
        client_cert_path: With https: file of the certificate to show.
        client_key_path: Its key.
    """

    scheme: Literal["http", "https"] = "http"
    path: _Path = "/metrics"
    port: _Port | None = None
    interval: str = "1s"
    insecure_skip_verify: bool = True
    ca_cert_path: str = ""
    client_cert_path: str = ""
    client_key_path: str = ""

    def __post_init__(self) -> None:
        # Raised while decoding, so that the message carries the path of these parameters.
        if seconds(self.interval, "interval") < MIN_INTERVAL_S:
            raise ValueError(f"must be at least 50ms, got {self.interval!r} - at `interval`")
        if bool(self.client_cert_path) != bool(self.client_key_path):
            raise ValueError("clientCertPath and clientKeyPath go together")

    @property
    def interval_s(self) -> float:
        """Time between two reads."""
        return seconds(self.interval, "interval")


class MetricsSourceParameters(PageParameters, frozen=True, kw_only=True):
    """metrics-data-source: each endpoint's metrics page."""


class ModelsSourceParameters(PageParameters, frozen=True, kw_only=True):
    """models-data-source: each endpoint's list of models."""

    path: _Path = "/v1/models"
    interval: str = "10s"


class DcgmSourceParameters(PageParameters, frozen=True, kw_only=True):
    """dcgm-data-source: the page of NVIDIA's DCGM exporter at each endpoint's address.

    Attributes:
        use_node_address: Has no effect: an endpoint has one address.
    """

    port: _Port | None = 9400
    use_node_address: bool = False


class ModelsExtractorParameters(_Camel, frozen=True):
    """models-data-extractor: which models and adapters each endpoint serves.

    Takes no parameters.
    """


class DcgmExtractorParameters(_Camel, frozen=True):
    """dcgm-extractor: how busy each endpoint's GPUs are.

    Takes no parameters.
    """


class EndpointNotificationParameters(_Camel, frozen=True):
    """endpoint-notification-source: tells its extractors of endpoints that come and go.

    Takes no parameters.
    """


class FileDiscoveryParameters(_Camel, frozen=True):
    """file-discovery: endpoints from a file.

    Attributes:
        path: The file.
        watch_file: Read it again when it changes.
    """

    path: Annotated[str, msgspec.Meta(min_length=1)]
    watch_file: bool = False
