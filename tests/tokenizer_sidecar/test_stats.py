"""Counters start at zero, each instance with its own."""

from __future__ import annotations

from tokenizer_sidecar.stats import ENCODE_BUCKETS_S, Stats


def test_instances_share_nothing() -> None:
    one, other = Stats(), Stats()
    one.requests["OK"] += 1
    one.encode_buckets[0] += 1
    assert other == Stats()
    assert one != other


def test_every_bound_has_a_bucket_and_there_is_one_beyond() -> None:
    assert sorted(set(ENCODE_BUCKETS_S)) == list(ENCODE_BUCKETS_S)
    assert len(Stats().encode_buckets) == len(ENCODE_BUCKETS_S) + 1


def test_an_answer_counts_under_what_became_of_it_and_how_long_it_took() -> None:
    stats = Stats()
    stats.answered("OK", 7, ENCODE_BUCKETS_S[1])
    stats.answered("BUSY", 0, ENCODE_BUCKETS_S[-1] + 1)
    assert stats.requests == {"OK": 1, "BUSY": 1}
    assert stats.tokens == 7
    assert stats.encode_s == sum((ENCODE_BUCKETS_S[1], ENCODE_BUCKETS_S[-1] + 1))
    assert [i for i, count in enumerate(stats.encode_buckets) if count] == [
        1,
        len(ENCODE_BUCKETS_S),
    ]
