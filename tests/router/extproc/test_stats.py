from __future__ import annotations

from router.extproc.stats import EARLY_S, EARLY_STREAK, StreamStats


def test_a_data_plane_that_never_waits_for_answers_is_noticed() -> None:
    stats = StreamStats()
    for _ in range(EARLY_STREAK - 1):
        stats.streamed(EARLY_S / 2)
    assert not stats.ends_early
    stats.streamed(EARLY_S / 2)
    assert stats.ends_early
    assert stats.ended_early == EARLY_STREAK


def test_one_answer_that_was_waited_for_clears_it() -> None:
    stats = StreamStats()
    for _ in range(EARLY_STREAK):
        stats.streamed(0.0)
    stats.streamed(EARLY_S)
    assert not stats.ends_early
    assert stats.ended_early == EARLY_STREAK
