"""What differs between one Envoy bootstrap and another. Needs no extra."""

from __future__ import annotations

import msgspec

ENGINES = "engines"
"""Name of the cluster of engines, in the bootstrap and in the router's EDS file."""


class EnvoySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between bootstraps.

    Attributes:
        host: Address the listener binds.
        port: Its port.
        admin_port: Port of Envoy's admin page on loopback; None: no admin page.
        router_host: Where the router's ext_proc service is: an IP address or a hostname.
        router_port: Its port.
        router_socket: A Unix socket of it on the same machine, instead of host, port and TLS.
        max_body_bytes: Largest request body; one byte more is a 413.
        full_duplex: Request bodies are streamed to the router and back instead of buffered.
        full_duplex_response: So are response bodies; only with `full_duplex`.
        router_tls: The router's port speaks TLS; its certificate is self-signed, so not verified.
        eds_file: File in which the router keeps the engines; with it Envoy takes an ordered list of
            endpoints and tries the next one where one cannot be reached. None: one endpoint.
    """

    host: str = "0.0.0.0"
    port: int = 8080
    admin_port: int | None = None
    router_host: str = "127.0.0.1"
    router_port: int = 9002
    router_socket: str | None = None
    max_body_bytes: int = 64 * 1024 * 1024
    full_duplex: bool = False
    full_duplex_response: bool = False
    router_tls: bool = False
    eds_file: str | None = None
