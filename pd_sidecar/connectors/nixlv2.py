"""nixlv2: vLLM's NixlConnector. Prefill, take its transfer parameters, decode with them.

The prefill engine keeps the prompt's blocks until the decode engine has read them; where they are
stands in `kv_transfer_params` of its answer and goes to the decode engine as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from pd_sidecar import bodies
from pd_sidecar.connectors.prefill import FAILED_STATUS, REFUSED_STATUS, prefilled, refused
from pd_sidecar.connectors.types import Answer, Call, Engines, Outcome, Whole
from pd_sidecar.usage import cached_tokens

TRANSFER = "kv_transfer_params"

_ASK = bodies.raw(
    {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "remote_engine_id": None,
        "remote_block_ids": None,
        "remote_host": None,
        "remote_port": None,
    }
)


class NixlV2:
    """The connector."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[Answer]:
        asked = {**bodies.one_token(call.api, call.fields), TRANSFER: _ASK}
        whole = await prefilled(self._engines, call, bodies.write(asked))
        if whole is not None and whole.status >= REFUSED_STATUS:
            yield refused(whole)
            return
        handed = None if whole is None else handed_over(whole)
        outcome = Outcome.FAILED if whole is None else Outcome.NO_CACHE
        if handed is not None:
            params, cached = handed
            body = bodies.write({**call.fields, TRANSFER: params})
            async with self._engines.decode(call, body) as reply:
                if reply.status < FAILED_STATUS:
                    yield Answer(reply, Outcome.OK, cached)
                    return
            # A decode engine that cannot fetch the blocks answers 5xx; it can still compute them.
            outcome = Outcome.NOT_TAKEN
        async with self._engines.decode(call, call.body) as reply:
            yield Answer(reply, outcome)


def handed_over(whole: Whole) -> tuple[msgspec.Raw, int | None] | None:
    """The transfer parameters, untouched, and what the prefill engine had cached.

    None where there are none: incomplete ones would make a decode engine exit.
    """
    fields = bodies.read(whole.body)
    if fields is None:
        return None
    params = bodies.value(fields, TRANSFER)
    if not isinstance(params, dict) or not params.get("remote_engine_id"):
        return None
    return fields[TRANSFER], cached_tokens({"usage": bodies.value(fields, "usage")})
