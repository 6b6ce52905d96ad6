"""Prints figures as they come and says whether all budgets are kept. IO."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from bench.figures import Figure, exit_code, table

Measure = Callable[[], Sequence[Figure]]
"""Runs one benchmark; takes from seconds to a few minutes."""


def report(benches: Mapping[str, Measure]) -> int:
    """Run them in order; 1 if one figure is over its budget."""
    # As an exception, so that a benchmark that is told to stop stops what it has started.
    signal.signal(signal.SIGTERM, _exit)
    figures: list[Figure] = []
    for name, measure in benches.items():
        print(f"-- {name}", flush=True)
        measured = measure()
        print(table(measured), flush=True)
        figures += measured
    over = [figure.name for figure in figures if figure.over]
    print(f"-- {len(figures)} figures, {len(over)} over budget")
    return exit_code(figures)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
