"""shared-storage: what the prefill engine computes lies where the decode engine can load it.

With `cache_hit_threshold` in the request the decode engine is asked first. It answers by itself
where it finds enough of the prompt, and else stops at once with the reason `cache_threshold`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from pd_sidecar import bodies
from pd_sidecar.connectors.peek import peeked
from pd_sidecar.connectors.prefill import REFUSED_STATUS, prefilled, refused
from pd_sidecar.connectors.types import Answer, Call, Engines, Outcome
from pd_sidecar.usage import cached_tokens

THRESHOLD = "cache_hit_threshold"

_ZERO = msgspec.Raw(b"0")


class SharedStorage:
    """The connector."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[Answer]:
        fields = dict(call.fields)
        if THRESHOLD in fields:
            async with self._engines.decode(call, call.body) as reply:
                begun, too_little = await peeked(reply)
                if not too_little:
                    yield Answer(begun, Outcome.UNNEEDED)
                    return
            fields[THRESHOLD] = _ZERO
        asked = bodies.write(bodies.one_token(call.api, fields))
        whole = await prefilled(self._engines, call, asked)
        if whole is not None and whole.status >= REFUSED_STATUS:
            yield refused(whole)
            return
        body = bodies.write(fields) if THRESHOLD in fields else call.body
        async with self._engines.decode(call, body) as reply:
            if whole is None:
                yield Answer(reply, Outcome.FAILED)
            else:
                usage = bodies.value(bodies.read(whole.body) or {}, "usage")
                yield Answer(reply, Outcome.OK, cached_tokens({"usage": usage}))
