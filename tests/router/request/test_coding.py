from __future__ import annotations

import contextlib
import gzip
import os
import random
import time
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest, BodyTooLarge
from router.request.coding import MAX_MEMBERS, codings, readable, unpack

CAP = 100_000


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(data) + packing.flush()


PACK: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "deflate-without-header": ("deflate", raw_deflate),
    "zstd": ("zstd", zstandard.compress),
}
EACH = pytest.mark.parametrize(("coding", "pack"), PACK.values(), ids=PACK)


@EACH
def test_what_was_packed_is_unpacked(coding: str, pack: Callable[[bytes], bytes]) -> None:
    for data in (b"", b"x", b"{}" * 40_000):
        assert unpack(coding, pack(data), CAP) == data


@EACH
def test_the_cap_holds_to_the_byte(coding: str, pack: Callable[[bytes], bytes]) -> None:
    assert len(unpack(coding, pack(bytes(CAP)), CAP)) == CAP
    with pytest.raises(BodyTooLarge, match="100000 bytes"):
        unpack(coding, pack(bytes(CAP + 1)), CAP)


@EACH
def test_a_bomb_is_stopped_at_the_cap(coding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(200 * 1024 * 1024))
    with pytest.raises(BodyTooLarge):
        unpack(coding, bomb, CAP)


@pytest.mark.parametrize(("coding", "pack"), [PACK[name] for name in PACK if name != "zstd"])
def test_a_body_that_ends_too_early_is_a_bad_request(
    coding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(b"some text, some text, other text")
    for length in (1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(BadRequest):
            unpack(coding, packed[:length], CAP)


def test_a_zstd_frame_that_ends_too_early_is_a_beginning_of_its_text() -> None:
    text = random.Random(1).randbytes(50_000)
    packed = zstandard.compress(text)
    for length in (1, len(packed) // 2, len(packed) - 1):
        unpacked = unpack("zstd", packed[:length], CAP)
        assert len(unpacked) < len(text)
        assert text.startswith(unpacked)


def test_several_gzip_members_are_one_body_and_share_the_cap() -> None:
    member = gzip.compress(bytes(CAP // 2))
    assert unpack("gzip", member + member, CAP) == bytes(CAP)
    with pytest.raises(BodyTooLarge):
        unpack("gzip", member * 3, CAP)


def test_several_zstd_frames_are_one_body_and_share_the_cap() -> None:
    frame = zstandard.compress(bytes(CAP // 2))
    assert unpack("zstd", frame + frame, CAP) == bytes(CAP)
    with pytest.raises(BodyTooLarge):
        unpack("zstd", frame * 3, CAP)


def test_a_zstd_window_beyond_what_http_allows_is_a_bad_request() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=25, enable_ldm=True)
    packing = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    frame = packing.compress(bytes(1000)) + packing.flush()
    with pytest.raises(BadRequest):
        unpack("zstd", frame, CAP)


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "zstd"]))
def test_no_bytes_do_worse_than_a_bad_request(data: bytes, coding: str) -> None:
    with contextlib.suppress(BadRequest, BodyTooLarge):
        unpack(coding, data, CAP)


@pytest.mark.parametrize(
    ("header", "applied", "known"),
    [
        ("", (), True),
        ("identity", (), True),
        (" GZIP ", ("gzip",), True),
        ("identity, deflate", ("deflate",), True),
        ("br", ("br",), False),
        ("gzip, gzip", ("gzip", "gzip"), False),
    ],
)
def test_the_header_names_what_was_applied(
    header: str, applied: tuple[str, ...], known: bool
) -> None:
    assert codings(header) == applied
    assert readable(applied) is known


def test_a_body_of_ever_so_many_members_is_refused_at_once() -> None:
    members = gzip.compress(b"x") * MAX_MEMBERS
    assert unpack("gzip", members, CAP) == b"x" * MAX_MEMBERS
    with pytest.raises(BadRequest, match="members"):
        unpack("gzip", members + gzip.compress(b"x"), CAP)


def test_what_follows_a_member_is_not_copied_once_for_each() -> None:
    body = gzip.compress(b"") * (MAX_MEMBERS - 1) + gzip.compress(os.urandom(32 * 1024 * 1024), 0)
    started = time.process_time()
    unpack("gzip", body, 64 * 1024 * 1024)
    assert time.process_time() - started < 5
