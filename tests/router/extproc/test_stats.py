from __future__ import annotations

from router.extproc.stats import EARLY_ENOUGH, EARLY_S, WATCHED, StreamStats

FEW = WATCHED - EARLY_ENOUGH


def test_a_data_plane_that_does_not_wait_for_answers_is_noticed() -> None:
    stats = StreamStats()
    for _ in range(WATCHED - 1):
        stats.streamed(EARLY_S / 2)
    assert not stats.ends_early
    stats.streamed(EARLY_S / 2)
    assert stats.ends_early
    assert stats.ended_early == WATCHED


def test_a_few_that_were_told_late_hide_nothing_and_more_clear_it() -> None:
    stats = StreamStats()
    for _ in range(WATCHED):
        stats.streamed(0.0)
    for _ in range(FEW):
        stats.streamed(EARLY_S)
    assert stats.ends_early
    stats.streamed(EARLY_S)
    assert not stats.ends_early
