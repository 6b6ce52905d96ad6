"""What templates can call, how JSON is written, and what the sandbox keeps from them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tokenizer_sidecar.sandbox import environment

env = environment(lambda: datetime(2026, 7, 4, 12, 30))


def render(source: str, **variables: Any) -> str:
    return env.from_string(source).render(variables)


def test_json_is_written_unescaped_and_in_order() -> None:
    value = {"b": "Größe & <b>'", "a": [1, None, True, 1.5]}
    assert (
        render("{{ v | tojson }}", v=value) == '{"b": "Größe & <b>\'", "a": [1, null, true, 1.5]}'
    )


def test_json_can_be_indented_sorted_and_made_ascii() -> None:
    assert render("{{ v | tojson(indent=2) }}", v={"a": 1}) == '{\n  "a": 1\n}'
    assert render("{{ v | tojson(sort_keys=true) }}", v={"b": 1, "a": 2}) == '{"a": 2, "b": 1}'
    assert render("{{ v | tojson(ensure_ascii=true) }}", v="ß") == '"\\u00df"'
    assert render("{{ v | tojson(separators=(',', ':')) }}", v={"a": 1}) == '{"a":1}'


def test_the_clock_is_the_one_given() -> None:
    assert render("{{ strftime_now('%d %b %Y %H:%M') }}") == "04 Jul 2026 12:30"


def test_a_template_can_refuse() -> None:
    with pytest.raises(jinja2.TemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_blocks_leave_no_blank_lines() -> None:
    assert render("{% if true %}\n  {% if true %}\na\n  {% endif %}\n{% endif %}\nb") == "a\nb"


def test_loops_can_break_and_continue() -> None:
    source = "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}"
    assert render(source + "{% if i == 3 %}{% break %}{% endif %}{% endfor %}") == "023"


def test_generation_blocks_are_rendered_and_keep_their_variables() -> None:
    source = "{% set x = 1 %}a{% generation %}{% set x = 2 %}b{{ x }}{% endgeneration %}c{{ x }}"
    assert render(source) == "ab2c1"


@pytest.mark.parametrize(
    "source",
    [
        "{{ m.append(1) }}",
        "{{ m.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os }}",
    ],
)
def test_a_template_cannot_change_or_reach_anything(source: str) -> None:
    with pytest.raises((jinja2.exceptions.SecurityError, jinja2.UndefinedError)):
        render(source, m=[])


_NAMES = st.sampled_from(["role", "content", "__proto__", *dir(dict), *dir(str)])


@given(_NAMES, st.sets(_NAMES), st.sampled_from([dict, str]))
def test_fields_are_found_as_jinja_finds_them(name: str, keys: set[str], kind: type) -> None:
    value = kind(dict.fromkeys(keys, 1))
    by_jinja, found = (
        environment.getattr(value, name) for environment in (ImmutableSandboxedEnvironment(), env)
    )
    assert type(found) is type(by_jinja)
    if not isinstance(found, jinja2.Undefined):
        assert found == by_jinja or callable(found)
