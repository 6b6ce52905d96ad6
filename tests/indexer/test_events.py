"""The vocabulary of events."""

from __future__ import annotations

from indexer.events import Batch, BlockRemoved, Reason
from tests.indexer import make


def test_a_batch_without_rejections_has_none_to_count() -> None:
    assert Batch([make.store_event()]).rejected == ()


def test_events_without_a_medium_are_about_the_gpu() -> None:
    assert BlockRemoved([1]).tier == make.store_event().tier == "gpu"


def test_reasons_are_labels_that_metrics_can_carry() -> None:
    assert all(reason.value == reason.name.lower() for reason in Reason)
