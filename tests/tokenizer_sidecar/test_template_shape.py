"""Which templates want content as parts."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.tokenizer_sidecar.disk import CHAT
from tokenizer_sidecar.sandbox import environment
from tokenizer_sidecar.template_shape import wants_parts

LOOP = "{% for m in messages %}BODY{% endfor %}"

PARTS = {
    "attribute": LOOP.replace("BODY", "{% for p in m.content %}{{ p.text }}{% endfor %}"),
    "item": LOOP.replace("BODY", "{% for p in m['content'] %}{{ p.text }}{% endfor %}"),
    "filtered": LOOP.replace("BODY", "{% for p in m.content | list %}{% endfor %}"),
    "sliced messages": (
        "{% for m in messages[1:] %}{% for p in m.content %}{% endfor %}{% endfor %}"
    ),
    "messages by another name": (
        "{% set a = messages[1:] %}{% set b = a | list %}"
        "{% for m in b %}{% for p in m.content %}{% endfor %}{% endfor %}"
    ),
    "content by its own name": LOOP.replace(
        "BODY", "{% set content = m.content %}{% for p in content %}{% endfor %}"
    ),
    "macro": "{% macro show(c) %}{% for p in c %}{{ p.text }}{% endfor %}{% endmacro %}"
    + LOOP.replace("BODY", "{{ show(m.content) }}"),
    "macro by keyword": "{% macro show(x, c) %}{% for p in c %}{% endfor %}{% endmacro %}"
    + LOOP.replace("BODY", "{{ show(1, c=m['content']) }}"),
}

STRINGS = {
    "plain": CHAT,
    "no loop": "{{ messages[0].content }}",
    "loop over something else": LOOP.replace("BODY", "{% for t in m.tool_calls %}{% endfor %}"),
    "macro called with something else": (
        "{% macro show(content) %}{% for p in content %}{% endfor %}{% endmacro %}"
        + LOOP.replace("BODY", "{{ show(m.tool_calls) }}")
    ),
    "content of something else": "{% for d in documents %}{% for p in d.content %}{% endfor %}"
    "{% endfor %}",
    "self-assignment": "{% set messages = messages[1:] %}" + CHAT,
}


def shape(source: str) -> bool:
    return wants_parts(environment(datetime.now).parse(source))


@pytest.mark.parametrize("source", PARTS.values(), ids=PARTS.keys())
def test_a_loop_over_content_asks_for_parts(source: str) -> None:
    assert shape(source)


@pytest.mark.parametrize("source", STRINGS.values(), ids=STRINGS.keys())
def test_anything_else_asks_for_a_string(source: str) -> None:
    assert not shape(source)
