"""What is kept of an engine beside its blocks: all of it, also as bytes."""

from __future__ import annotations

import msgspec

from indexer.block import MediaId
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.outline import Outline
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import E1, NAMES


def _ledger(block_size: int) -> Ledger:
    index = BlockIndex(block_size)
    return Ledger(E1, index, Speculative(index.bits))


def _packed(ledger: Ledger) -> bytes:
    outline = ledger.outline()
    assert outline is not None
    pieces = ledger.copy_pieces().kept()
    return msgspec.msgpack.encode(msgspec.structs.replace(outline, pieces=pieces))


def _again(ledger: Ledger, block_size: int) -> Ledger:
    other = _ledger(block_size)
    assert other.restore(msgspec.msgpack.decode(_packed(ledger), type=Outline))
    return other


def test_of_an_engine_that_was_not_heard_there_is_nothing_to_know() -> None:
    assert _packed(_ledger(16)) == msgspec.msgpack.encode(Outline(None, ()))


def test_sizes_and_pieces_come_back() -> None:
    ledger = _ledger(32)
    media: dict[int, list[MediaId]] = {0: ["image", b"digest"]}
    ledger.apply(make.store_event(NAMES[:3], media=media), "tiny")
    other = _again(ledger, 32)
    assert _packed(other) == _packed(ledger)
    assert (other.block_size, other.pieces) == (16, 3)


def test_groups_and_claims_come_back() -> None:
    ledger = _ledger(16)
    ledger.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    state = make.store_event([77], [], group=1, group_kind="mamba")
    for _ in range(2):
        ledger.apply(state, "tiny")
    other = _again(ledger, 16)
    assert _packed(other) == _packed(ledger)
    outline = other.outline()
    assert outline is not None
    assert [(claimed.name, claimed.copies) for claimed in outline.claims] == [(77, 2)]
