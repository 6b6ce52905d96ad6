"""The Jinja environment chat templates run in: what Hugging Face gives them, and no more.

Templates come with the model and are not trusted: they see plain values in a sandbox that lets them
change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

Now = Callable[[], datetime]


_DICT_ATTRIBUTES = frozenset(dir(dict))


class _Sandbox(ImmutableSandboxedEnvironment):
    """Takes the fields of messages and tools from where they are.

    Jinja asks for an attribute first, which plain dicts do not have, and the failure of that costs
    more than all else it does.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute in obj and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute]
        return super().getattr(obj, attribute)


def environment(now: Now) -> ImmutableSandboxedEnvironment:
    """An environment whose strftime_now asks `now`."""
    env = _Sandbox(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[LoopControlExtension, _Generation],
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda form: now().strftime(form)
    return env


class _Generation(Extension):
    """`{% generation %}` marks for training what the model wrote; its body is just rendered.

    As in Hugging Face's form, a variable set inside is not seen outside.
    """

    tags = {"generation"}  # noqa: RUF012 - the name and form are Jinja's

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike Jinja's own filter: no HTML escapes, characters as they are, keys in their order."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
