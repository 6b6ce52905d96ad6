from __future__ import annotations

import msgspec
import pytest

from router.errors import BadRequest
from router.request.ids import packed
from router.request.vllm import generate


def test_ids_are_used_as_they_are() -> None:
    read = generate(msgspec.json.encode({"model": "m", "token_ids": [5, 6], "cache_salt": "s"}))
    assert (read.token_ids, read.prompt_known, read.cache_salt) == (packed([5, 6]), True, "s")


def test_ids_with_media_among_them_go_by_load() -> None:
    body = {"token_ids": [5], "features": {"mm_hashes": {"image": ["a"]}}}
    read = generate(msgspec.json.encode(body))
    assert (read.token_ids, read.prompt_known) == (None, False)
    assert generate(msgspec.json.encode({"token_ids": [5], "features": None})).prompt_known


@pytest.mark.parametrize("ids", [None, "x", ["x"], [-1], [2**31]], ids=str)
def test_impossible_ids_are_a_bad_request(ids: object) -> None:
    with pytest.raises(BadRequest, match="token_ids"):
        generate(msgspec.json.encode({"token_ids": ids}))


def test_no_ids_leave_nothing_to_match() -> None:
    assert not generate(b'{"token_ids": []}').prompt_known
