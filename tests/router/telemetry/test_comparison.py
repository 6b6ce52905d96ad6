from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.facts import HeldPrefix
from router.telemetry.comparison import Comparison, Predicted
from router.telemetry.decisions import Record, StageRecord

RECORD = Record(
    request_id="r",
    at=1.0,
    kind="chat",
    model="m",
    endpoint="a:1",
    status=200,
    prompt_tokens=70,
    predicted_cached_tokens=64,
    block_size=16,
)


def compared(*records: Record) -> dict[str, Predicted]:
    comparison = Comparison()
    for record in records:
        comparison.ended(record)
    return comparison.predicted


def changed(**fields: Any) -> Record:
    return msgspec.structs.replace(RECORD, **fields)


def test_answered_requests_add_up_by_endpoint() -> None:
    other = changed(endpoint="b:1", predicted_cached_tokens=0)
    assert compared(RECORD, RECORD, other) == {
        "a:1": Predicted(2, 140, 128),
        "b:1": Predicted(1, 70, 0),
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 500},
        {"status": None},
        {"prompt_tokens": None},
        {"predicted_cached_tokens": None},
        {"served": "b:1"},
        {"endpoint": None},
    ],
    ids=str,
)
def test_what_no_engine_computed_as_planned_does_not_count(fields: dict[str, Any]) -> None:
    assert compared(changed(**fields)) == {}


@pytest.mark.parametrize(
    ("held", "reused"), [(None, 0), (3, 48), (5, 64)], ids=["nothing", "a part", "all of it"]
)
def test_where_another_endpoint_prefills_both_look_the_prompt_up(
    held: int | None, reused: int
) -> None:
    stage = StageRecord(profile="prefill", endpoints=("p:1",))
    prefix = {} if held is None else {"a:1": HeldPrefix(held, {"gpu": held}, held, float(held))}
    record = changed(prefill=stage, predicted_cached_tokens=16, prefix=prefix, prompt_tokens=80)
    assert compared(record) == {"p:1": Predicted(1, 80, 16), "a:1": Predicted(1, 80, reused)}


def test_what_lies_in_other_memory_is_no_hit_to_the_engine() -> None:
    held = {"a:1": HeldPrefix(4, {"gpu": 3, "cpu": 1}, 4, 3.8)}
    assert compared(changed(prefix=held)) == {"a:1": Predicted(1, 70, 48)}


def test_an_endpoint_that_is_gone_is_forgotten() -> None:
    comparison = Comparison()
    comparison.ended(RECORD)
    comparison.forget("a:1")
    comparison.forget("a:1")
    assert comparison.predicted == {}
