"""Plain counters of the sidecar. The event loop alone writes them; whoever exposes them reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

import msgspec

ENCODE_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds: from a short chat to a prompt of a million tokens."""


class Stats(msgspec.Struct):
    """
    Attributes:
        requests: Requests by what became of them: an outcome's name, like "OK", or "CANCELLED".
        tokens: Ids sent.
        in_flight: Requests read and not yet answered.
        load_failures: Failed attempts to load a model, by model.
        work_s: Seconds spent on parsing, rendering and encoding.
        encode_s: Seconds spent on answering, waiting for a thread included.
        encode_buckets: Answers per bound of ENCODE_BUCKETS_S, and one for those beyond.
    """

    requests: Counter[str] = msgspec.field(default_factory=Counter)
    tokens: int = 0
    in_flight: int = 0
    load_failures: Counter[str] = msgspec.field(default_factory=Counter)
    work_s: float = 0.0
    encode_s: float = 0.0
    encode_buckets: list[int] = msgspec.field(
        default_factory=lambda: [0] * (len(ENCODE_BUCKETS_S) + 1)
    )

    def answered(self, outcome: str, tokens: int, took_s: float) -> None:
        """A request got its answer."""
        self.requests[outcome] += 1
        self.tokens += tokens
        self.encode_s += took_s
        self.encode_buckets[bisect_left(ENCODE_BUCKETS_S, took_s)] += 1
