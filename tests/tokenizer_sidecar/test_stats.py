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
