from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_sidecar import bodies

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(fields=st.dictionaries(st.text(), JSON))
def test_what_is_read_is_written_again(fields: dict[str, object]) -> None:
    read = bodies.read(msgspec.json.encode(fields))
    assert read is not None
    assert msgspec.json.decode(bodies.write(read)) == fields
    assert {name: bodies.value(read, name) for name in fields} == fields


@given(fields=st.dictionaries(st.text(), JSON), path=st.sampled_from(sorted(bodies.PATHS)))
def test_one_token_changes_nothing_of_the_prompt(fields: dict[str, object], path: str) -> None:
    fields["prompt"] = "x"
    read = bodies.read(msgspec.json.encode(fields))
    assert read is not None
    asked = msgspec.json.decode(bodies.write(bodies.one_token(path, read)))
    changed = {
        "stream",
        "stream_options",
        "min_tokens",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "sampling_params",
    }
    kept = {name: value for name, value in fields.items() if name not in changed}
    assert {name: value for name, value in asked.items() if name not in changed} == kept
    assert asked["stream"] is False
    assert "stream_options" not in asked


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"a": 1} x'])
def test_what_is_no_object_has_no_fields(body: bytes) -> None:
    assert bodies.read(body) is None


def test_a_field_that_is_absent_or_no_json_has_no_value() -> None:
    assert bodies.value({}, "a") is None
    assert bodies.value({"a": msgspec.Raw(b"{")}, "a") is None
