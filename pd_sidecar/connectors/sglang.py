"""sglang: both engines get the request at once and meet in a room of the prefill engine. IO.

The decode engine waits for the cache, so a prefill that fails must end its wait.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pd_sidecar import bodies
from pd_sidecar.connectors.prefill import REFUSED_STATUS, prefilled, refused
from pd_sidecar.connectors.types import Answer, Call, Engines, Outcome, Reply, Whole
from pd_sidecar.errors import SidecarError


class SGLang:
    """The connector."""

    def __init__(self, engines: Engines, bootstrap_port: int) -> None:
        self._engines = engines
        self._bootstrap_port = bootstrap_port

    @asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[Answer]:
        body = bodies.write({**call.fields, **self._room(call)})
        failure: SidecarError | None = None
        try:
            async with asyncio.TaskGroup() as group, AsyncExitStack() as stack:
                prefill = group.create_task(prefilled(self._engines, call, body))
                decode = group.create_task(self._decode(stack, call, body))
                stack.callback(prefill.cancel)
                yield await self._first(stack, call, prefill, decode)
        except* SidecarError as errors:
            failure = _only(errors)
        if failure is not None:
            raise failure

    async def _first(
        self,
        stack: AsyncExitStack,
        call: Call,
        prefill: asyncio.Task[Whole | None],
        decode: asyncio.Task[Reply],
    ) -> Answer:
        """Go by whoever answers first; a prefill that succeeded leaves the word to decode."""
        await asyncio.wait({prefill, decode}, return_when=asyncio.FIRST_COMPLETED)
        if decode.done() or _succeeded(await prefill):
            return Answer(await decode, Outcome.OK)
        decode.cancel()
        whole = prefill.result()
        if whole is not None:
            return refused(whole)
        alone = await stack.enter_async_context(self._engines.decode(call, call.body))
        return Answer(alone, Outcome.FAILED)

    async def _decode(self, stack: AsyncExitStack, call: Call, body: bytes) -> Reply:
        return await stack.enter_async_context(self._engines.decode(call, body))

    def _room(self, call: Call) -> bodies.Fields:
        assert call.prefiller is not None
        host, _ = call.prefiller
        meeting = {
            "bootstrap_host": host,
            "bootstrap_port": self._bootstrap_port,
            "bootstrap_room": secrets.randbits(63),
        }
        return {name: bodies.raw(value) for name, value in meeting.items()}


def _succeeded(whole: Whole | None) -> bool:
    return whole is not None and whole.status < REFUSED_STATUS


def _only(errors: BaseExceptionGroup[SidecarError]) -> SidecarError:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, SidecarError)
    return found
