"""What the ext_proc service has seen."""

from __future__ import annotations

EARLY_S = 0.005
"""A stream that ends so soon after the response headers has not waited for a streamed answer."""

EARLY_STREAK = 20
"""So many in a row are no accident: the data plane ends streams before the answers end."""


class StreamStats:
    """
    Attributes:
        open: Streams open now.
        total: Streams since the start.
        failed: Streams ended by a fault of the router.
        observed: Streams that only show a request and take no answer.
        ended_early: Streams that ended with the headers of an answer that was to be streamed.
    """

    def __init__(self) -> None:
        self.open = 0
        self.total = 0
        self.failed = 0
        self.observed = 0
        self.ended_early = 0
        self._streak = 0

    def streamed(self, after_headers_s: float) -> None:
        """The stream of an answer of events ended so long after its headers."""
        if after_headers_s < EARLY_S:
            self.ended_early += 1
            self._streak += 1
        else:
            self._streak = 0

    @property
    def ends_early(self) -> bool:
        """Requests are counted out before their answers end."""
        return self._streak >= EARLY_STREAK
