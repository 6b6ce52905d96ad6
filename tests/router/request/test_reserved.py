from __future__ import annotations

import json
from typing import Any

import pytest

from router.errors import BadRequest
from router.request.reserved import MAX_ODD_BYTES, TRANSFER, refuse_hidden, refuse_reserved

ASKED = '{"kv_transfer_params": {"do_remote_prefill": true}'


@pytest.mark.parametrize("name", TRANSFER)
def test_handing_caches_over_is_refused_unless_it_is_allowed(name: str) -> None:
    with pytest.raises(BadRequest, match=name):
        refuse_reserved({name: 1}, allow_transfer=False)
    refuse_reserved({name: 1}, allow_transfer=True)
    refuse_reserved({name: None}, allow_transfer=False)


def test_the_full_report_mode_is_refused_whatever_is_allowed() -> None:
    with pytest.raises(BadRequest, match="kv_cache_report_mode"):
        refuse_reserved({"vllm_xargs": {"kv_cache_report_mode": "full"}}, allow_transfer=True)
    refuse_reserved({"vllm_xargs": {"temperature": 1}}, allow_transfer=False)


@pytest.mark.parametrize(
    "body",
    [
        f"{ASKED}}}".encode(),
        f'{ASKED}, "temperature": NaN}}'.encode(),
        f'{ASKED}, "stream": "no", "model": 3}}'.encode(),
        f"{ASKED}}}".encode("utf-8-sig"),
        f"{ASKED}}}".encode("utf-16"),
        f"{ASKED}}}".encode("utf-32-le"),
        f"{ASKED}}}".replace("_", "\\u005f").encode(),
    ],
    ids=["plain", "nan", "other-types", "bom", "utf-16", "utf-32", "escaped"],
)
def test_a_body_hides_nothing_from_us_that_an_engine_reads(body: bytes) -> None:
    assert "kv_transfer_params" in json.loads(body)
    with pytest.raises(BadRequest, match="kv_transfer_params"):
        refuse_hidden(body, allow_transfer=False)


def test_a_large_body_is_read_by_the_book_or_refused() -> None:
    filler = b'"x": "' + b"x" * MAX_ODD_BYTES + b'", "kv_transfer_params": '
    refuse_hidden(b"{" + filler + b"null}", allow_transfer=False)
    refuse_hidden(b"\x1f\x8b\x00\xff" + filler, allow_transfer=False)
    refuse_hidden(b'["kv_transfer_params", NaN, ' + filler, allow_transfer=False)
    with pytest.raises(BadRequest, match="no JSON in UTF-8"):
        refuse_hidden(b'{"y": NaN, ' + filler + b"{}}", allow_transfer=False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"kv_transfer_params",
        b"\xff\x00kv_transfer_params",
        b'"kv_transfer_params"',
        b'{"prompt": "kv_transfer_params"}',
        b'{"x": "kv_transfer_params", "y": ' + b"[" * 100_000,
        b'{"kv_transfer_params": {}, "y": NaN, "x": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_other_bodies_pass(body: bytes) -> None:
    refuse_hidden(body, allow_transfer=False)


def test_of_a_name_that_stands_twice_the_last_one_counts() -> None:
    twice: list[Any] = ["null", "{}"]
    refuse_hidden(_body(*reversed(twice)), allow_transfer=False)
    with pytest.raises(BadRequest):
        refuse_hidden(_body(*twice), allow_transfer=False)


def _body(*values: str) -> bytes:
    return b"{%s}" % ",".join(f'"kv_transfer_params": {value}' for value in values).encode()
