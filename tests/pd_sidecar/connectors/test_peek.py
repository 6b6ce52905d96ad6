from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pd_sidecar.connectors.peek import peeked
from pd_sidecar.connectors.types import Reply


def reply(*chunks: bytes, kind: str = "text/event-stream") -> tuple[Reply, list[bytes]]:
    """A reply and what has been read of it so far."""
    read: list[bytes] = []

    async def each() -> AsyncIterator[bytes]:
        for chunk in chunks:
            read.append(chunk)
            yield chunk

    return Reply(200, (("Content-Type", kind),), each()), read


TEXT = b'data: {"choices":[{"text":"a","finish_reason":null}]}\n\n'
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"cache_threshold"}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("chunks", "stopped", "read"),
    [
        ((TEXT, DONE), False, 1),
        ((ROLE, TEXT, DONE), False, 2),
        ((ROLE, STOP, DONE), True, 2),
        ((ROLE + STOP[:20], STOP[20:], DONE), True, 2),
        ((ROLE, DONE), False, 2),
        ((), False, 0),
    ],
    ids=["text", "role-then-text", "stop", "split", "nothing", "empty"],
)
async def test_a_stream_is_read_until_it_is_clear_and_nothing_is_lost(
    chunks: tuple[bytes, ...], stopped: bool, read: int
) -> None:
    given, so_far = reply(*chunks)
    again, too_little = await peeked(given)
    assert (too_little, len(so_far)) == (stopped, read)
    assert b"".join([chunk async for chunk in again.chunks]) == b"".join(chunks)


@pytest.mark.parametrize(
    ("body", "stopped"),
    [
        (b'{"choices":[{"finish_reason":"cache_threshold"}]}', True),
        (b'{"choices":[{"finish_reason":"stop"}]}', False),
        (b'{"choices":[]}', False),
        (b"[1]", False),
        (b"no json", False),
    ],
)
async def test_a_whole_answer_says_it_by_its_finish_reason(body: bytes, stopped: bool) -> None:
    given, _ = reply(body[:5], body[5:], kind="application/json")
    again, too_little = await peeked(given)
    assert too_little is stopped
    assert b"".join([chunk async for chunk in again.chunks]) == body
