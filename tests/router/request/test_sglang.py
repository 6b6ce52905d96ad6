from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.errors import BadRequest
from router.request.ids import packed
from router.request.sglang import generate


def read(**body: Any) -> Any:
    return generate(msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ({"input_ids": [1, 2]}, packed([1, 2])),
        ({"input_ids": [[1, 2], [3]]}, packed([1, 2])),
        ({"text": "hi"}, None),
        ({"text": ["hi", "ho"]}, None),
    ],
    ids=str,
)
def test_ids_and_texts_are_prompts(body: dict[str, Any], ids: bytes | None) -> None:
    made = read(**body)
    assert (made.prompt_known, made.token_ids) == (True, ids)
    assert msgspec.json.decode(made.prompt)["prompt"] == next(iter(body.values()))


def test_prompts_are_counted() -> None:
    assert [read(text=text).prompts for text in ("hi", ["hi"], ["hi", "ho"])] == [1, 1, 2]
    assert read(input_ids=[[1], [2], [3]]).prompts == 3


@pytest.mark.parametrize(
    ("extra", "salt"), [("k", "k"), (["k", "l"], "k"), (None, None), ([], None)], ids=str
)
def test_the_extra_key_is_a_salt(extra: Any, salt: str | None) -> None:
    assert read(text="hi", extra_key=extra).cache_salt == salt


@pytest.mark.parametrize(
    "body",
    [{"prompt": "of another engine"}, {"text": ""}, {"text": "x", "image_data": "y"}],
    ids=str,
)
def test_what_cannot_be_matched_goes_by_load(body: dict[str, Any]) -> None:
    assert not read(**body).prompt_known


@pytest.mark.parametrize("ids", ["x", [-1], [1, [2]]], ids=str)
def test_impossible_ids_are_a_bad_request(ids: Any) -> None:
    with pytest.raises(BadRequest):
        read(input_ids=ids)
