"""What came to an index, what left it, and what did not count: figures for whoever asks."""

from __future__ import annotations

from collections import Counter

from indexer.events import Reason
from indexer.groups import KINDS

UNKNOWN_KIND = "unknown"
"""What the kind of a group is called that its engine did not tell."""

OTHER_KIND = "other"
"""What kinds are called of which nothing is known: engines could name any number."""


class Turnover:
    """Counts only grow.

    Attributes:
        admitted: Blocks that were new to their holder in their tier.
        removed: Blocks that an engine's removal took away.
        kept: Removals of one copy of a block of which others are left.
        skipped_stores: Kind of group, and why -> stores that did not count at all.
        skipped_removals: Kind of group, and why -> removals of what is not followed.
    """

    def __init__(self) -> None:
        self.admitted = 0
        self.removed = 0
        self.kept = 0
        self.skipped_stores: Counter[tuple[str, Reason]] = Counter()
        self.skipped_removals: Counter[tuple[str, Reason]] = Counter()

    def skip_store(self, kind: str | None, reason: Reason) -> None:
        """A store does not count."""
        self.skipped_stores[_named(kind), reason] += 1

    def skip_removal(self, kind: str | None, reason: Reason) -> None:
        """A removal changes nothing."""
        self.skipped_removals[_named(kind), reason] += 1


def _named(kind: str | None) -> str:
    if kind is None:
        return UNKNOWN_KIND
    return kind if kind in KINDS else OTHER_KIND
