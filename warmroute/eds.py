"""Keeps the pool's endpoints in a file that Envoy watches. IO.

Envoy takes only endpoints from a list that it knows, so the file is written within the very call in
which the pool changes, before any request can see the change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import structlog

from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from warmroute.envoy_settings import ENGINES
from warmroute.errors import StartError

log = structlog.get_logger()

_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


def render(addresses: Iterable[str], version: int) -> bytes:
    """An assignment in JSON, which is YAML, too; `addresses` are ``ip:port``."""
    places = [address.rpartition(":") for address in addresses]
    endpoints = [
        {
            "endpoint": {
                "address": {
                    "socket_address": {"address": host.strip("[]"), "port_value": int(port)}
                }
            }
        }
        for host, _, port in places
    ]
    assignment = {
        "@type": _TYPE,
        "cluster_name": ENGINES,
        "endpoints": [{"lb_endpoints": endpoints}],
    }
    text = msgspec.json.encode({"version_info": str(version), "resources": [assignment]})
    return msgspec.json.format(text, indent=1)


class EdsFile:
    """The file. A listener of the pool.

    Attributes:
        failed: Times the file could not be written.
    """

    def __init__(self, path: Path, pool: Pool) -> None:
        """Write it, and from now on whenever the pool changes. Raises StartError if it cannot."""
        self.failed = 0
        self._path = path
        self._pool = pool
        self._written: tuple[str, ...] | None = None
        self._version = 0
        try:
            self._write(self._addresses())
        except OSError as error:
            raise StartError(f"--eds-file: cannot write {path}: {error.strerror}") from error
        pool.listen(self)

    def added(self, endpoint: Endpoint) -> None:
        self.sync()

    def removed(self, endpoint: Endpoint) -> None:
        self.sync()

    def changed(self, endpoint: Endpoint) -> None:
        """Its address is the same."""

    def restarted(self, endpoint: Endpoint) -> None:
        """So is it here."""

    def died(self, endpoint: Endpoint) -> None:
        """It is not picked, but Envoy may know it."""

    def revived(self, endpoint: Endpoint) -> None:
        """Envoy has known it all the time."""

    def sync(self) -> None:
        """Write it where it is not what the pool is: the pool changed, or a write failed before."""
        addresses = self._addresses()
        if addresses == self._written:
            return
        try:
            self._write(addresses)
        except OSError as error:
            self.failed += 1
            log.error("eds.failed", path=str(self._path), reason=str(error))

    def _addresses(self) -> tuple[str, ...]:
        return tuple(endpoint.address for endpoint in self._pool.snapshot())

    def _write(self, addresses: tuple[str, ...]) -> None:
        """Replace it: Envoy sees only a file that is moved into its place."""
        self._version += 1
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        draft.write_bytes(render(addresses, self._version))
        draft.replace(self._path)
        self._written = addresses
