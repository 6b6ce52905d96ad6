"""What pools and the ports of lower tiers publish."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indexer.engines.pool import decode
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored, Change, PoolTold, Reason
from tests.indexer import make

pack = msgspec.msgpack.encode


def told(**fields: Any) -> dict[str, Any]:
    return {"event_id": 1, "event_type": "stored", "seq_hashes": [1, "0x2"], **fields}


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param([1_700_000_000, [told(medium="memory")], 0], id="mooncake"),
        pytest.param({"events": [told(medium="HOST")]}, id="memcache"),
        pytest.param([0, [told(medium="cpu", timestamp=1, event_type="Stored")], 7], id="yuanrong"),
        pytest.param([0, [told(medium=None)]], id="no-medium-means-the-stream's-first"),
        pytest.param([0, [told(medium="cpu", block_hashes=[2, b"\x01"])]], id="both-lists-once"),
    ],
)
def test_every_form_says_the_same(payload: object) -> None:
    assert decode(pack(payload)).events == [PoolTold(Change.STORED, [1, 2], "cpu")]


def test_node_and_rank_are_told_by_the_event_and_not_by_the_batch() -> None:
    named = told(medium="ssd", backend_id="10.0.0.1", dp_rank=2, tenant_id="acme")
    (event,) = decode(pack([0, [named], 9])).events
    assert event == PoolTold(Change.STORED, [1, 2], "disk", "10.0.0.1", 2, "acme")


def test_what_is_gone_from_no_named_medium_is_gone_from_all_of_the_stream() -> None:
    gone = {"event_type": "removed", "seq_hashes": [1]}
    cleared = {"type": "cleared"}
    events = decode(pack([0, [gone, cleared], 0])).events
    assert events == [
        PoolTold(Change.REMOVED, [1], "cpu"),
        PoolTold(Change.REMOVED, [1], "disk"),
        PoolTold(Change.CLEARED, [], "cpu"),
        PoolTold(Change.CLEARED, [], "disk"),
    ]


def test_a_bad_event_costs_only_itself() -> None:
    bad = [
        told(event_type="moved"),
        told(seq_hashes=["x"]),
        told(seq_hashes=7),
        told(medium=5),
        told(backend_id=5),
        7,
    ]
    batch = decode(pack([0, [*bad, told()], 0]))
    assert batch.events == [PoolTold(Change.STORED, [1, 2], "cpu")]
    assert batch.rejected == [Reason.UNKNOWN_EVENT, *[Reason.BAD_EVENT] * 5]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\xc1", Reason.NOT_MSGPACK),
        (pack(7), Reason.BAD_BATCH),
        (pack([0]), Reason.BAD_BATCH),
        (pack({"other": 1}), Reason.BAD_BATCH),
    ],
)
def test_what_is_no_batch_is_rejected_as_a_whole(payload: bytes, reason: Reason) -> None:
    assert decode(payload).rejected == (reason,)


def test_an_engine_that_speaks_on_the_port_of_a_tier_means_that_tier() -> None:
    payload = make.payload(make.stored(), make.removed([11], medium="ssd"), make.CLEARED)
    stored, removed, cleared = decode(payload, ("disk",), settled=True).events
    assert isinstance(stored, BlockStored)
    assert isinstance(removed, BlockRemoved)
    assert (stored.tier, stored.settled, removed.tier, removed.settled) == ("disk", True) * 2
    assert cleared == AllBlocksCleared("disk")


def test_on_the_stream_of_a_pool_an_engine_speaks_for_itself() -> None:
    (stored,) = decode(make.payload(make.stored())).events
    assert isinstance(stored, BlockStored)
    assert (stored.tier, stored.settled) == ("gpu", False)
