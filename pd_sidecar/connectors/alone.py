"""Without a prefill engine the decode engine does everything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pd_sidecar.connectors.types import Answer, Call, Engines, Outcome


class Alone:
    """The connector of requests that name no prefill engine."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[Answer]:
        async with self._engines.decode(call, call.body) as reply:
            yield Answer(reply, Outcome.UNNEEDED)
