"""What the ext_proc service has seen."""

from __future__ import annotations


class StreamStats:
    """
    Attributes:
        open: Streams open now.
        total: Streams since the start.
        failed: Streams ended by a fault of the router.
    """

    def __init__(self) -> None:
        self.open = 0
        self.total = 0
        self.failed = 0
