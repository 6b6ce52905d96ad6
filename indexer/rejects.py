"""Rejects: how much did not count, by reason; of all time, and of the present process alone."""

from __future__ import annotations

from collections import Counter

from indexer.events import Reason


class Rejects(Counter[Reason]):
    """Counts only grow; `present` begins anew with the engine."""

    def __init__(self) -> None:
        super().__init__()
        self._past: Counter[Reason] = Counter()

    @property
    def present(self) -> Counter[Reason]:
        """What came since the engine began, or began to tell everything again."""
        return self - self._past

    def begin_anew(self) -> None:
        """What came so far is of another process, or is about to be told again."""
        self._past = Counter(self)
