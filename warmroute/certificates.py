"""The ext_proc port's credentials: files that are given, or a self-signed certificate. IO."""

from __future__ import annotations

from pathlib import Path

import grpc
import structlog

from warmroute.errors import StartError
from warmroute.tls import BadPair, check_pair, self_signed

log = structlog.get_logger()

KEY, CERTIFICATE = "tls.key", "tls.crt"
"""Names in the folder, as Kubernetes mounts a TLS secret."""

Pair = tuple[bytes, bytes]
"""Key and certificate chain, PEM."""


def credentials(folder: Path | None, *, reload: bool) -> grpc.ServerCredentials:
    """Self-signed without a folder. With `reload` files that change are taken over.

    Raises StartError where the files are not there or do not belong together.
    """
    if folder is None:
        return grpc.ssl_server_credentials([self_signed()])
    given = GivenPair(folder)
    if not reload:
        return grpc.ssl_server_credentials([given.pair])
    first = grpc.ssl_server_certificate_configuration([given.pair])
    # None, which the stubs lack, means that nothing changed.
    return grpc.dynamic_ssl_server_credentials(first, given.renewed)  # type: ignore[arg-type]


class GivenPair:
    """Key and certificate in a folder."""

    def __init__(self, folder: Path) -> None:
        """Raises StartError."""
        self._folder = folder
        try:
            self.pair = self._read()
        except (OSError, BadPair) as error:
            raise StartError(f"--cert-path: {error}") from error

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """What the files say now; None where that is nothing new or nothing that can be used.

        Called by gRPC at each new connection, of which a data plane opens few.
        """
        try:
            pair = self._read()
        except (OSError, BadPair) as error:
            log.error("certificate.ignored", path=str(self._folder), reason=str(error))
            return None
        if pair == self.pair:
            return None
        self.pair = pair
        log.info("certificate.renewed", path=str(self._folder))
        return grpc.ssl_server_certificate_configuration([pair])

    def _read(self) -> Pair:
        key = (self._folder / KEY).read_bytes()
        certificate = (self._folder / CERTIFICATE).read_bytes()
        check_pair(key, certificate)
        return key, certificate
