"""context-length-aware: prefer endpoints meant for prompts of this length.

An endpoint's label says the range, as ``min-max`` tokens. As a filter it leaves out those whose
range does not hold the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, Tokens
from router.request.types import Request

_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)

_UNLABELLED = 0.5
_MALFORMED = 0.0


class ContextLengthAware(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where the prompt's length is not known, all score alike and all are kept.

    Attributes:
        label: The label's key.
        enable_filtering: Whether it leaves anybody out.
    """

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "its range of prompt lengths does not hold this one"

    label: Annotated[str, msgspec.Meta(min_length=1)] = "llm-d.ai/context-length-range"
    enable_filtering: bool = False

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((Tokens, ""),)

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        tokens = facts.get(Tokens)
        if tokens is None or not self.enable_filtering:
            return endpoints
        return [e for e in endpoints if _admits(e.labels.get(self.label), tokens.count)]

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        tokens = facts.get(Tokens)
        if tokens is None:
            return [_UNLABELLED] * len(endpoints)
        return [_score(endpoint.labels.get(self.label), tokens.count) for endpoint in endpoints]


def _range(text: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        return None
    low, high = int(match[1]), int(match[2])
    return (low, high) if low <= high else None


def _admits(text: str | None, length: int) -> bool:
    if text is None:
        return True
    limits = _range(text)
    return limits is not None and limits[0] <= length <= limits[1]


def _score(text: str | None, length: int) -> float:
    """llm-d's formula: narrow ranges, and those whose end is far, are better."""
    if text is None:
        return _UNLABELLED
    limits = _range(text)
    if limits is None:
        return _MALFORMED
    low, high = limits
    if not low <= length <= high:
        distance = low - length if length < low else length - high
        return 0.3 / (1 + distance / 1000)
    width = high - low
    if width == 0:
        return 1.0
    return 0.3 + 0.7 * (0.7 / (1 + width / 10000) + 0.3 * (high - length) / width)
