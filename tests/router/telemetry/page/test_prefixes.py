from __future__ import annotations

from router.telemetry.decisions import Record
from router.telemetry.page.prefixes import SHOWN, Hot, hottest
from tests.support.records import A, B, cached, record


def found(name: str, predicted: int = 32, address: str = A) -> Record:
    return cached(
        100, {"gpu": predicted // 16}, predicted=predicted, address=address, prefix_id=name
    )


def test_prefixes_are_told_by_length_use_and_place() -> None:
    records = [found("a"), found("a"), found("a", address=B), found("b", 64), found("b", 64)]
    assert hottest(records) == [
        Hot("b", 64, 2, 128, {A: 2}),
        Hot("a", 32, 3, 96, {A: 2, B: 1}),
    ]


def test_what_was_found_once_or_not_at_all_is_not_hot() -> None:
    nothing = record(prefix_id="c", predicted_cached_tokens=0)
    assert hottest([found("a"), nothing, nothing, record(), record()]) == []


def test_only_the_hottest_are_told() -> None:
    records = [found(f"p{i}", 16 * (i + 1)) for i in range(SHOWN + 3) for _ in range(2)]
    told = hottest(records)
    assert [hot.id for hot in told] == [f"p{i}" for i in range(SHOWN + 2, 2, -1)]
