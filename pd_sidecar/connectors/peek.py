"""Looks at the beginning of an answer without losing it: did the engine stop for want of cache?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from pd_sidecar.connectors.types import Reply

STOPPED = "cache_threshold"
"""Finish reason of an engine that found less of the prompt in its cache than was asked for."""

_DATA = b"data:"


async def peeked(reply: Reply) -> tuple[Reply, bool]:
    """The same reply, and whether it stopped for want of cache.

    Of a stream it reads up to the first event that carries output or an end; of anything else all.
    """
    streamed = any(n.lower() == "content-type" and "event-stream" in v for n, v in reply.headers)
    seen = b""
    async for chunk in reply.chunks:
        seen += chunk
        reason = _streamed_reason(seen) if streamed else None
        if reason is not None:
            return _again(reply, seen), reason == STOPPED
    found = _choice(seen)
    return _again(reply, seen), found is not None and found.get("finish_reason") == STOPPED


def _again(reply: Reply, seen: bytes) -> Reply:
    return Reply(reply.status, reply.headers, _chained(seen, reply.chunks))


async def _chained(seen: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield seen
    async for chunk in rest:
        yield chunk


def _streamed_reason(seen: bytes) -> str | None:
    """Why the stream has ended; empty where output has begun; None where it is too early to say."""
    for line in seen.split(b"\n")[:-1]:
        choice = _choice(line[len(_DATA) :]) if line.startswith(_DATA) else None
        if choice is None:
            continue
        if choice.get("finish_reason"):
            return str(choice["finish_reason"])
        delta = choice.get("delta")
        told = delta if isinstance(delta, dict) else choice
        if any(told.get(name) for name in ("content", "text", "token_ids", "tool_calls")):
            return ""
    return None


def _choice(text: bytes) -> dict[str, Any] | None:
    """The first choice of an answer or event."""
    try:
        answer = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else None
