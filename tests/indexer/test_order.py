"""Numbers of messages: what continues, skips, repeats or begins anew."""

from __future__ import annotations

import pytest

from indexer.order import REMEMBERED, Order, Progress, Verdict


def heard(*seqs: int) -> Order:
    order = Order()
    order.begin(seqs[0])
    for seq in seqs:
        order.take(seq, digest=seq * 10)
    return order


def test_nothing_was_heard_at_first() -> None:
    order = Order()
    assert (order.judge(5, 0), order.next, order.progress) == (Verdict.FIRST, None, None)


@pytest.mark.parametrize(
    ("seq", "digest", "verdict"),
    [
        (6, 0, Verdict.NEXT),
        (7, 0, Verdict.GAP),
        (5, 50, Verdict.REPEATED),
        (3, 30, Verdict.REPEATED),
        (5, 51, Verdict.OTHER),
        (2, 20, Verdict.OLD),
    ],
)
def test_a_number_is_judged_by_what_was_heard(seq: int, digest: int, verdict: Verdict) -> None:
    assert heard(3, 4, 5).judge(seq, digest) is verdict


def test_what_lies_too_far_back_cannot_be_compared() -> None:
    order = heard(*range(REMEMBERED + 1))
    assert order.judge(0, 0) is Verdict.OLD
    assert order.judge(1, 10) is Verdict.REPEATED


def test_a_new_run_compares_nothing_of_the_one_before() -> None:
    order = heard(3, 4, 5)
    order.begin(9)
    assert (order.start, order.judge(9, 0), order.judge(4, 40)) == (9, Verdict.NEXT, Verdict.OLD)
    order.forget()
    assert order.judge(4, 40) is Verdict.FIRST


def test_another_process_of_ours_goes_on_behind_the_latest_message() -> None:
    progress = heard(3, 4, 5).progress
    assert progress == Progress(3, 5, 50)
    order = Order()
    order.restore(progress)
    assert (order.start, order.next, order.progress) == (3, 6, progress)
    assert order.judge(5, 50) is Verdict.REPEATED
    assert order.judge(5, 1) is Verdict.OTHER
    assert order.judge(4, 40) is Verdict.OLD
