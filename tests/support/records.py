"""Records of requests: every field optional, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from router.producers.facts import HeldPrefix
from router.telemetry.decisions import Record

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def record(request_id: str = "r1", **fields: Any) -> Record:
    """A chat request that went to A."""
    given = {"at": 1.0, "kind": "chat", "model": "m", "endpoint": A, **fields}
    return Record(request_id=request_id, **given)


def cached(
    tokens: int, blocks: dict[str, int], *, predicted: int, address: str = A, **fields: Any
) -> Record:
    """One whose endpoint holds so many blocks of 16 by tier."""
    confirmed = sum(blocks.values())
    held = HeldPrefix(confirmed, blocks, max(confirmed, predicted // 16), 0.0)
    return record(
        endpoint=address,
        prompt_tokens=tokens,
        predicted_cached_tokens=predicted,
        prefix={address: held},
        block_size=16,
        **fields,
    )
