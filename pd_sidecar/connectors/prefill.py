"""What all connectors make of a prefill engine's answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pd_sidecar.connectors.types import Answer, Call, Engines, Outcome, Reply, Whole
from pd_sidecar.errors import Unreachable

FAILED_STATUS = 500
"""From here on the engine is at fault, and the decode engine may do better."""

REFUSED_STATUS = 400


async def prefilled(engines: Engines, call: Call, body: bytes) -> Whole | None:
    """The answer; None where the engine failed and somebody else must do the work."""
    try:
        whole = await engines.prefill(call, body)
    except Unreachable:
        return None
    return whole if whole.status < FAILED_STATUS else None


def refused(whole: Whole, outcome: Outcome = Outcome.REFUSED) -> Answer:
    """An engine's own words for the client: the decode engine would say the same."""
    return Answer(Reply(whole.status, whole.headers, _once(whole.body)), outcome)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
