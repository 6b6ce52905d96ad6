"""Single fields of a body: defaults, nulls and wrong types."""

from __future__ import annotations

from typing import Any

import pytest

from tokenizer_sidecar import fields
from tokenizer_sidecar.errors import RenderError


def test_missing_fields_take_their_defaults() -> None:
    assert fields.flag({}, "f", default=True) is True
    assert fields.mapping({}, "m") == {}
    assert fields.count({}, "c") is None


def test_null_means_missing_for_objects_and_counts() -> None:
    assert fields.mapping({"m": None}, "m") == {}
    assert fields.count({"c": None}, "c") is None


def test_values_of_the_right_type_are_returned() -> None:
    assert fields.flag({"f": False}, "f", default=True) is False
    assert fields.mapping({"m": {"a": 1}}, "m") == {"a": 1}
    assert fields.count({"c": -1}, "c") == -1


@pytest.mark.parametrize("value", [None, 1, "true", []], ids=repr)
def test_a_flag_must_be_a_boolean(value: Any) -> None:
    with pytest.raises(RenderError, match="f must be true or false"):
        fields.flag({"f": value}, "f", default=True)


@pytest.mark.parametrize("value", [-2, 1.5, "3", True, []], ids=repr)
def test_a_count_must_be_a_whole_number_from_minus_one(value: Any) -> None:
    with pytest.raises(RenderError, match="c must be"):
        fields.count({"c": value}, "c")


@pytest.mark.parametrize("value", [1, "x", []], ids=repr)
def test_a_mapping_must_be_an_object(value: Any) -> None:
    with pytest.raises(RenderError, match="m must be an object"):
        fields.mapping({"m": value}, "m")
