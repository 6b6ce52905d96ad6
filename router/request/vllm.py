"""vLLM's own API: generation from token ids, as its render routes give them."""

from __future__ import annotations

from typing import Any

import msgspec

from router.request.bodies import Fields, Read, decode
from router.request.ids import check, packed
from router.request.types import Kind


class _Generate(Fields, kw_only=True):
    token_ids: list[int]
    features: Any = None


_generate = msgspec.json.Decoder(_Generate)


def generate(body: bytes) -> Read:
    """``/inference/v1/generate``. Raises BadRequest.

    Ids with media among them go by load: which blocks the media lie on decides what they match.
    """
    read = decode(_generate, body)
    check(read.token_ids, "$.token_ids")
    known = bool(read.token_ids) and not read.features
    return Read(
        fields=read,
        kind=Kind.COMPLETION if known else Kind.OTHER,
        token_ids=packed(read.token_ids) if known else None,
        prompt_known=known,
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )
