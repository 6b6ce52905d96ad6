"""How many tokens a request lets the engine generate at most."""

from __future__ import annotations

from typing import Any

import msgspec

from router.request.types import Request


class _Limits(msgspec.Struct):
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None


_decoder = msgspec.json.Decoder(_Limits)


def output_limit(request: Request) -> int | None:
    """None where the body names none. What makes no sense here is the engine's to refuse."""
    try:
        limits = _decoder.decode(request.body)
    except msgspec.DecodeError:
        return None
    named = (limits.max_completion_tokens, limits.max_tokens, limits.max_output_tokens)
    return next((n for n in named if type(n) is int and n >= 0), None)
