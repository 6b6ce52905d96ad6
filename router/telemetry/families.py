"""Prometheus' own families under llm-d's names and ours, for what is seldom counted."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from router.telemetry.samples import LLMD, described
from router.telemetry.series import LABELS


class Families:
    """Makes them in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        """Under llm-d's name."""
        return Counter(LLMD + name, described(LLMD, text), labels, registry=self._registry)

    def histogram(
        self, name: str, text: str, buckets: Sequence[float], labels: Sequence[str] = LABELS
    ) -> Histogram:
        """Under llm-d's name; of requests, unless other labels are given."""
        text = described(LLMD, text)
        return Histogram(LLMD + name, text, labels, buckets=buckets, registry=self._registry)

    def ours(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Under a name of ours."""
        return Counter(f"warmroute_{name}", text, labels, registry=self._registry)
