from __future__ import annotations

import math
import re

import pytest

from router.config.errors import ConfigError
from router.config.text import line_of, parse

TEXT = """\
# a comment
plugins:
  - type: a
  - type: b
    parameters: {x: 1}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("$.plugins", 2),
        ("$.plugins[0]", 3),
        ("$.plugins[1].type", 4),
        ("$.plugins[1].parameters.x", 5),
        ("$.plugins[1].parameters.y.z", 5),
        ("$.plugins[1].name", 4),
        ("$.other", None),
        ("$", None),
    ],
)
def test_a_path_is_found_in_the_text(path: str, line: int | None) -> None:
    assert line_of(TEXT, path) == line


def test_text_that_is_no_yaml_has_no_lines() -> None:
    assert line_of("a: [", "$.a") is None


def test_json_that_is_indented_with_tabs_has_lines() -> None:
    assert line_of('{\n\t"a": [\n\t\t{"b": 1}\n\t]\n}', "$.a[0].b") == 3


def test_json_may_be_indented_with_tabs() -> None:
    assert parse('{\n\t"a": [\n\t\t1\n\t]\n}') == {"a": [1]}


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e-3", 0.001), ("1E3", 1000.0), ("1.5e3", 1500.0), (".5e+1", 5.0), ("-2e0", -2.0)],
)
@pytest.mark.parametrize("form", ["a: {}", '{{"a": {}}}'], ids=["yaml", "json"])
def test_a_number_with_an_exponent_is_one(form: str, text: str, number: float) -> None:
    assert parse(form.format(text)) == {"a": number}


@pytest.mark.parametrize("form", ["a: {}", '{{"a": {}}}', '{{\n\t"a": {}\n}}'])
@pytest.mark.parametrize(
    ("text", "number"), [("128.0", 128), ("1e9", 10**9), ("0.5", 0.5), ("1e30", 1e30)]
)
def test_a_whole_number_is_one_however_it_is_written(form: str, text: str, number: float) -> None:
    read = parse(form.format(text))
    assert read == {"a": number}
    assert isinstance(read, dict)
    assert type(read["a"]) is type(number)


@pytest.mark.parametrize("text", [".nan", ".inf", "-.inf"])
def test_what_is_no_number_that_can_be_counted_stays_what_it_is(text: str) -> None:
    read = parse(f"a: {text}")
    assert isinstance(read, dict)
    assert not math.isfinite(read["a"])


def test_keys_may_be_merged_from_elsewhere() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}"
    assert parse(text) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}


def test_what_only_begins_like_a_number_is_text() -> None:
    assert parse("a: 1e5x\nb: e5\nc: '1e5'") == {"a": "1e5x", "b": "e5", "c": "1e5"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n\tb: 2", "this line has a tab) - at line 2"),
        ('{\n\t"a": 1,\n\t"a": 2\n}', "key 'a' stands twice"),
        ("a: 1\na: 2", "key 'a' stands twice - at line 2"),
        ("!!map []", "not valid YAML"),
        ("[" * 5000, "nested too deeply"),
        ("", "empty"),
    ],
    ids=["tab", "json-twice", "yaml-twice", "tag", "deep", "empty"],
)
def test_a_mistake_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse(text)
