"""One bounded HTTP GET to an engine, with a reason when it fails. IO."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import aiohttp
from yarl import URL

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A vLLM metrics page has about 80 KB; llm-d stops at the same size."""

_HEADERS = {
    # Engines offer OpenMetrics too, which writes some families differently.
    "Accept": "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1",
    # Unpacking costs more than the wire does, and would let a small answer grow without bound.
    "Accept-Encoding": "identity",
    "User-Agent": "warmroute",
}

_REASONS: Mapping[type[Exception], str] = {
    TimeoutError: "timeout",
    aiohttp.ClientConnectorError: "unreachable",
    aiohttp.ClientResponseError: "not-http",
    aiohttp.ClientError: "broken-off",
    OSError: "broken-off",
}
"""The first class that fits gives the reason."""


class FetchFailed(Exception):
    """An engine did not give a usable answer.

    Attributes:
        reason: One of ``timeout``, ``unreachable``, ``not-http``, ``broken-off``, ``status``,
            ``encoding``, ``too-large``, ``no-metrics``.
        detail: For people.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    @property
    def answered(self) -> bool:
        """True where the engine did answer, though not as wanted."""
        return self.reason in ("status", "encoding", "too-large", "no-metrics")


def open_session(*, keepalive_s: float, timeout_s: float) -> aiohttp.ClientSession:
    """A session that keeps a connection to each engine and adds nothing to a request."""
    connector = aiohttp.TCPConnector(
        limit=0, keepalive_timeout=keepalive_s, use_dns_cache=False, ttl_dns_cache=None
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        headers=_HEADERS,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        # The body is read to its end at once, so the buffer need not slow the sender down.
        read_bufsize=256 * 1024,
    )


async def fetch(
    session: aiohttp.ClientSession, url: URL, tls: ssl.SSLContext | bool = True
) -> bytes:
    """The body of a 200 answer. `tls` as aiohttp takes it. Raises FetchFailed."""
    try:
        async with session.get(url, allow_redirects=False, ssl=tls) as response:
            _check_head(response)
            return await _read_body(response)
    except tuple(_REASONS) as error:
        reason = next(reason for kind, reason in _REASONS.items() if isinstance(error, kind))
        raise FetchFailed(reason, str(error) or type(error).__name__) from error


def _check_head(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        raise FetchFailed("status", f"status {response.status}")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise FetchFailed("encoding", f"content-encoding {encoding} was not asked for")


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise FetchFailed("too-large", f"more than {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
