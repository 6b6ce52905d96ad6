"""What the ext_proc service has seen."""

from __future__ import annotations

from collections import Counter, deque

from router.telemetry import buckets
from router.telemetry.samples import Buckets

EARLY_S = 0.005
"""A stream that ends so soon after the response headers has not waited for a streamed answer: an
engine takes longer for one token."""

WATCHED = 100
"""So many of the last streamed answers are looked at."""

EARLY_ENOUGH = 90
"""So many of them are no accident: the data plane ends streams before the answers end."""

_STREAM_S = tuple(map(float, buckets.STREAM_S))


class StreamStats:
    """
    Attributes:
        open: Streams open now.
        total: Streams since the start.
        failed: Streams ended by a fault of the router.
        observed: Streams that only show a request and take no answer.
        ended_early: Streams that ended with the headers of an answer that was to be streamed.
        tells_ends: The following two are kept.
        codes: gRPC's name of a status -> streams that ended with it.
        duration: Seconds that they were open.
    """

    def __init__(self, *, tells_ends: bool = False) -> None:
        self.open = 0
        self.total = 0
        self.failed = 0
        self.observed = 0
        self.ended_early = 0
        self.tells_ends = tells_ends
        self.codes: Counter[str] = Counter()
        self.duration = Buckets(_STREAM_S)
        self._last: deque[bool] = deque(maxlen=WATCHED)

    def closed(self, code: str, seconds: float) -> None:
        """A stream ended."""
        if self.tells_ends:
            self.codes[code] += 1
            self.duration.observe(seconds)

    def streamed(self, after_headers_s: float) -> None:
        """The stream of an answer of events ended so long after its headers."""
        early = after_headers_s < EARLY_S
        self.ended_early += early
        self._last.append(early)

    @property
    def ends_early(self) -> bool:
        """Requests are counted out before their answers end."""
        return len(self._last) == WATCHED and sum(self._last) >= EARLY_ENOUGH
