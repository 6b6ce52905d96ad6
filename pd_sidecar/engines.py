"""Talks HTTP to engines: prefill engines and the one the proxy stands before. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.typedefs import LooseHeaders
from multidict import CIMultiDict
from yarl import URL

from pd_sidecar.allow import Address
from pd_sidecar.config import Config
from pd_sidecar.connectors.types import Call, Headers, Reply, Whole
from pd_sidecar.errors import Unreachable
from pd_sidecar.headers import DATA_PARALLEL_RANK

CONNECT_S = 2.0
"""An engine in the same cluster accepts a connection in milliseconds."""

KEEPALIVE_S = 4.0
"""Below the 5 s after which the engines' server closes an idle connection."""

RETRIED_STATUSES = frozenset({502, 503, 504})

Body = bytes | aiohttp.StreamReader | None


def session() -> aiohttp.ClientSession:
    """What engines are called through: bodies untouched, no limit but for connecting."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        auto_decompress=False,
        skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


class HttpEngines:
    """The engines of one proxy."""

    def __init__(self, client: aiohttp.ClientSession, config: Config) -> None:
        self._client = client
        self._config = config

    async def encode(self, call: Call, encoder: Address, body: bytes) -> Whole:
        return await self._asked(encoder, call, body)

    async def prefill(self, call: Call, body: bytes) -> Whole:
        """Asked for again after a 502, 503 or 504, as often as is configured."""
        assert call.prefiller is not None
        for _ in range(self._config.prefill_retries):
            whole = await self._asked(call.prefiller, call, body)
            if whole.status not in RETRIED_STATUSES:
                return whole
            await asyncio.sleep(self._config.prefill_backoff_s)
        return await self._asked(call.prefiller, call, body)

    @asynccontextmanager
    async def decode(self, call: Call, body: bytes) -> AsyncIterator[Reply]:
        async with self.passed("POST", call.target, call.headers, body, call.rank) as reply:
            yield reply

    @asynccontextmanager
    async def passed(
        self, method: str, target: str, headers: Headers, body: Body, rank: int = 0
    ) -> AsyncIterator[Reply]:
        """Any request to the decode engine."""
        address = self._config.engine_host, self._config.engine_port + rank
        response = await self._sent(method, _url(address, target), headers, body)
        try:
            yield Reply(response.status, tuple(response.headers.items()), _chunks(response))
        finally:
            # An answer that was not read to its end is an answer nobody waits for.
            response.close()

    async def _asked(self, address: Address, call: Call, body: bytes) -> Whole:
        """The whole answer of another engine than the decode engine."""
        url = _url(address, call.target)
        try:
            async with asyncio.timeout(self._config.prefill_timeout_s):
                response = await self._sent("POST", url, _for_others(call.headers), body)
                async with response:
                    whole = b"".join([chunk async for chunk in _chunks(response)])
        except TimeoutError as error:
            raise Unreachable(f"no answer from {url.authority} in time") from error
        return Whole(response.status, tuple(response.headers.items()), whole)

    async def _sent(
        self, method: str, url: URL, headers: Headers, body: Body
    ) -> aiohttp.ClientResponse:
        """Raises Unreachable."""
        named: LooseHeaders = CIMultiDict(headers)

        async def send() -> aiohttp.ClientResponse:
            return await self._client.request(
                method, url, headers=named, data=body, allow_redirects=False
            )

        try:
            try:
                return await send()
            except aiohttp.ServerDisconnectedError:
                # It closed a connection that lay idle, at the very moment it was used again.
                if isinstance(body, aiohttp.StreamReader):
                    raise
                return await send()
        except (aiohttp.ClientError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"no answer from {url.authority}: {why}") from error


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except aiohttp.ClientError as error:
        raise Unreachable(f"the answer broke off: {error}") from error


def _for_others(headers: Headers) -> Headers:
    """A rank that the request names is one of the decode engine's."""
    return tuple(pair for pair in headers if pair[0].lower() != DATA_PARALLEL_RANK)


def _url(address: Address, target: str) -> URL:
    host, port = address
    name = f"[{host}]" if ":" in host else host
    return URL(f"http://{name}:{port}{target}", encoded=True)
