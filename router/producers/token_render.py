"""Token ids from a server with vLLM's render routes, over HTTP. IO.

The engine's own renderer answers, so templates, tools and media come out exactly as it computes
them; a media item's hash says which blocks it lies on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec
import structlog

from indexer.hashing import pack
from router.producers import media
from router.producers.facts import Tokens
from router.producers.tokens import Missing, TokenStats
from router.request.types import Kind, Request

log = structlog.get_logger()

PROBE_S = 5.0
"""Between two looks at whether the server is there."""

_PATHS: Mapping[Kind, str] = {
    Kind.COMPLETION: "/v1/completions/render",
    Kind.CHAT: "/v1/chat/completions/render",
}


class _Place(msgspec.Struct):
    offset: int
    length: int


class _Features(msgspec.Struct):
    mm_hashes: dict[str, list[str]] | None = None
    mm_placeholders: dict[str, list[_Place]] | None = None


class _Rendered(msgspec.Struct):
    token_ids: list[int]
    features: _Features | None = None


_one = msgspec.json.Decoder(_Rendered)
_several = msgspec.json.Decoder(list[_Rendered])


class RenderClient:
    """Asks the render routes; `run` keeps the connections."""

    def __init__(self, url: str, timeout_s: float, mm_timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._mm_timeout_s = mm_timeout_s
        self._session: aiohttp.ClientSession | None = None
        self.stats = TokenStats()

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """The first prompt's tokens as the server renders them, or why there are none."""
        if self._session is None:
            return Missing.UNAVAILABLE
        body, has_parts = _with_model(request.body, model)
        budget_s = self._mm_timeout_s if has_parts else self._timeout_s
        try:
            async with asyncio.timeout(budget_s):
                return await self._render(self._session, request.kind, body)
        except TimeoutError:
            return Missing.TIMEOUT
        except aiohttp.ClientError as error:
            self._note(reached=False, reason=str(error))
            return Missing.UNAVAILABLE
        except msgspec.DecodeError:
            return Missing.FAILED

    async def run(self) -> None:
        """Hold the session, and look now and then whether the server is there."""
        async with aiohttp.ClientSession() as self._session:
            try:
                while True:
                    await self._probe(self._session)
                    await asyncio.sleep(PROBE_S)
            finally:
                self._session = None

    async def _render(
        self, session: aiohttp.ClientSession, kind: Kind, body: bytes
    ) -> Tokens | Missing:
        headers = {"content-type": "application/json"}
        async with session.post(self._url + _PATHS[kind], data=body, headers=headers) as response:
            answer = await response.read()
            self._note(reached=True)
            if response.status in (400, 422):
                return Missing.REFUSED
            if response.status == 404:
                return Missing.UNKNOWN_MODEL
            if response.status in (429, 503):
                return Missing.BUSY
            if response.status != 200:
                return Missing.FAILED
        if kind is Kind.CHAT:
            return _tokens(_one.decode(answer))
        rendered = _several.decode(answer)
        return _tokens(rendered[0]) if rendered else Missing.FAILED

    async def _probe(self, session: aiohttp.ClientSession) -> None:
        try:
            async with asyncio.timeout(PROBE_S), session.get(f"{self._url}/health"):
                self._note(reached=True)
        except (TimeoutError, aiohttp.ClientError) as error:
            self._note(reached=False, reason=str(error) or "no answer in time")

    def _note(self, *, reached: bool, reason: str = "") -> None:
        if reached and not self.stats.connected:
            self.stats.connections += 1
            log.info("tokenizer.connected", url=self._url)
        elif not reached and self.stats.connected:
            log.warning("tokenizer.lost", url=self._url, reason=reason)
        self.stats.connected = reached


def _with_model(body: bytes, model: str) -> tuple[bytes, bool]:
    """The client's body under another model name, keys in their order; and whether it has parts."""
    read: dict[str, Any] = msgspec.json.decode(body)
    read["model"] = model
    messages = read.get("messages") or ()
    has_parts = any(isinstance(m.get("content"), list) and m["content"] for m in messages)
    return msgspec.json.encode(read), has_parts


def _tokens(rendered: _Rendered) -> Tokens | Missing:
    features = rendered.features or _Features()
    try:
        ids = pack(rendered.token_ids)
        found = media.items(
            features.mm_hashes or {}, features.mm_placeholders or {}, len(rendered.token_ids)
        )
    except (OverflowError, ValueError):
        return Missing.FAILED
    return Tokens(ids, found)
