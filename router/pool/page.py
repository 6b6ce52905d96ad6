"""Where a page of an endpoint is, and how it is asked for."""

from __future__ import annotations

import ssl

from yarl import URL

from router.pool.sources import PageParameters


class Page:
    """One page of every endpoint.

    Attributes:
        interval_s: Time between two reads of it.
        context: How TLS is spoken; False where any certificate will do.
    """

    def __init__(self, parameters: PageParameters) -> None:
        """Raises OSError where a file of a certificate cannot be used."""
        self.interval_s = parameters.interval_s
        self.context = _context(parameters)
        self._parameters = parameters

    def url(self, address: str) -> URL:
        """The page of the endpoint at ``ip:port``."""
        given = self._parameters
        url = URL(f"{given.scheme}://{address}{given.path}")
        return url if given.port is None else url.with_port(given.port)


def _context(given: PageParameters) -> ssl.SSLContext | bool:
    if given.scheme == "http":
        return True
    if given.insecure_skip_verify and not given.client_cert_path:
        return False
    context = ssl.create_default_context(cafile=given.ca_cert_path or None)
    # Endpoints are asked by their IP address, which certificates seldom name.
    context.check_hostname = False
    if given.insecure_skip_verify:
        context.verify_mode = ssl.CERT_NONE
    if given.client_cert_path:
        context.load_cert_chain(given.client_cert_path, given.client_key_path)
    return context
