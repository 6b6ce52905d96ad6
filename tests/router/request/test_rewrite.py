from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.request.rewrite import renamed, with_model, with_name
from tests.support import make

NEW = 'org/a longer \N{SNOWMAN} "name"'


@pytest.mark.parametrize(
    ("body", "edited"),
    [
        (b'{"model":"m","x":1}', b'{"model":NEW,"x":1}'),
        (b' { "x" : 1.50 , "model" \n: "m" }\n', b' { "x" : 1.50 , "model" \n: NEW }\n'),
        (b'{"model": null}', b'{"model": NEW}'),
        (b'{"m\\u006fdel":"m\\u00e9"}', b'{"m\\u006fdel":NEW}'),
        (b'{"model":"a","model":"b"}', b'{"model":NEW,"model":NEW}'),
        (b'{"a":{"model":"m"},"b":["model",{"model":1}]}', None),
        (b'{"x":"\\"model\\":\\"m\\"","y":"model"}', None),
        (b'{"x": 12345678901234567890123, "y": 1e999}', None),
        (b"{}", b'{"model":NEW}'),
        (b" {\n}", b' {\n"model":NEW}'),
        (b'{"model":"a\\\\","x":"\\\\\\""}', b'{"model":NEW,"x":"\\\\\\""}'),
    ],
    ids=lambda body: body.decode() if body else "inserted",
)
def test_only_the_models_value_changes(body: bytes, edited: bytes | None) -> None:
    if edited is None:
        edited = b'{"model":NEW,' + body[1:]
    assert with_model(body, NEW) == edited.replace(b"NEW", msgspec.json.encode(NEW))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.just("model"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text() | st.just("model"), JSON, max_size=4), st.booleans(), st.text())
def test_what_is_read_is_the_same_but_for_the_model(
    body: dict[str, Any], ascii_only: bool, name: str
) -> None:
    if not isinstance(body.get("model", ""), str):
        body["model"] = "m"
    text = json.dumps(body, ensure_ascii=ascii_only, indent=1).encode()
    edited = with_model(text, name)
    assert json.loads(edited) == {**body, "model": name}


@pytest.mark.parametrize(
    ("answer", "edited"),
    [
        (b'{"model":"t","x":{"model":"t"}}', b'{"model":"n","x":{"model":"t"}}'),
        (b'{"model":"other"}', b'{"model":"other"}'),
        (
            b'{"type":"response.created","response":{"model":"t","output":[{"model":"t"}]}}',
            b'{"type":"response.created","response":{"model":"n","output":[{"model":"t"}]}}',
        ),
        (b'{"message":{"model":"t"}}', b'{"message":{"model":"n"}}'),
        (
            b'{"choices":[{"text":"\\"model\\":\\"t\\""}]}',
            b'{"choices":[{"text":"\\"model\\":\\"t\\""}]}',
        ),
        (b'{"model":"\\u0074"}', b'{"model":"n"}'),
        (b'{"model":3}', b'{"model":3}'),
        (b"[DONE]", b"[DONE]"),
    ],
    ids=lambda answer: answer.decode(),
)
def test_an_answer_names_the_model_as_the_client_did(answer: bytes, edited: bytes) -> None:
    assert with_name(answer, "t", "n") == edited


def test_a_request_is_renamed_with_its_body() -> None:
    request = make.request(raw=b'{"model":"m"}', asked_model="m")
    made = renamed(request, "t", "rule")
    assert (made.model, made.asked_model, made.sent) == ("t", "m", b'{"model":"t"}')
    assert made.rewritten_by == "rule"


def test_a_request_keeps_its_name_where_that_is_wanted_or_its_body_is_not_read() -> None:
    for request in (make.request(raw=b'{"model":"t"}', model="t"), make.request(model="")):
        assert renamed(request, "t", "rule") is request
