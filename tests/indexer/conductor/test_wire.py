from __future__ import annotations

import msgspec
import pytest

from indexer.conductor.wire import Codec, Covered, Instance, Malformed, Query


@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ("", False),
        ("application/json", False),
        ("text/plain", False),
        ("application/msgpack", True),
        ("Application/X-MsgPack; charset=utf-8", True),
    ],
)
def test_the_content_type_tells_the_encoding(header: str, packed: bool) -> None:
    codec = Codec(header)
    asked = Query("m", [1], 128)
    decoded = (msgspec.msgpack if packed else msgspec.json).decode(codec.encode(asked))
    assert decoded["token_ids"] == [1]
    assert codec.decode(codec.encode(asked), Query) == asked


def test_ranks_stand_under_dp() -> None:
    instance = Instance(128, {"0": Covered(128, 1, 0, 0)})
    assert msgspec.to_builtins(instance)["DP"]["0"]["npu_blocks"] == 1


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 5000, b'{"model": ""}'])
@pytest.mark.parametrize("header", ["", "application/msgpack"])
def test_what_cannot_be_read_is_malformed(body: bytes, header: str) -> None:
    with pytest.raises(Malformed):
        Codec(header).decode(body, Query)
