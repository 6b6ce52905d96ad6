"""Puts another model name into a JSON object and leaves every other byte as it was sent.

The text must be valid JSON; that is for the caller to know. It is looked over once, without a tree
being made of it, so neither numbers nor spelling nor the order of keys can change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec

from router.request.types import Request

_QUOTE = ord('"')
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_COLON = re.compile(rb"\s*:\s*")
_SCALAR = re.compile(_STRING + rb'|[^\s,{}\[\]"]+', re.DOTALL)
_START = re.compile(rb"\s*\{\s*")

INSIDE_ANSWERS = frozenset({"response", "message"})
"""Objects in which answers name the model besides their top: those of the Responses API's events
and of Anthropic's ``message_start``."""


def renamed(request: Request, model: str, rule: str) -> Request:
    """The request for another model, with the body to send. `rule` is what wants it so."""
    if model == request.model or not request.raw:
        return request
    sent = with_model(request.raw, model)
    return msgspec.structs.replace(request, model=model, sent=sent, rewritten_by=rule)


def with_model(body: bytes, model: str) -> bytes:
    """A request body for `model`; a body that names none gets the name in front."""
    value = msgspec.json.encode(model)
    spans = [(start, end, value) for start, end in _models(body, ())]
    if spans:
        return _replaced(body, spans)
    opening = _START.match(body)
    if opening is None:
        return body
    rest = body[opening.end() :]
    comma = b"" if rest.startswith(b"}") else b","
    return body[: opening.end()] + b'"model":' + value + comma + rest


def with_name(answer: bytes, sent: str, name: str) -> bytes:
    """A JSON answer in which the model that is called `sent` is called `name`."""
    value = msgspec.json.encode(name)
    return _replaced(
        answer,
        [
            (start, end, value)
            for start, end in _models(answer, INSIDE_ANSWERS)
            if _text(answer[start:end]) == sent
        ],
    )


def is_complete(text: bytes) -> bool:
    """There are brackets, and every one that was opened is closed again."""
    if not text.rstrip().endswith((b"}", b"]")):
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first != _QUOTE:
            depth += 1 if first in b"{[" else -1
    return depth == 0


def _models(text: bytes, inside: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where the values of ``model`` stand, at the top and in objects called as `inside` says."""
    depth, parent = 0, ""
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first != _QUOTE:
            depth += 1 if first in b"{[" else -1
            continue
        if depth > 2 or (depth == 2 and parent not in inside):
            continue
        colon = _COLON.match(text, token.end())
        if colon is None:
            continue
        key = _text(token.group())
        if depth == 1:
            parent = key or ""
        if key == "model" and (value := _SCALAR.match(text, colon.end())):
            yield value.span()


def _text(scalar: bytes) -> str | None:
    """The string that a JSON scalar is; None for any other."""
    if not scalar.startswith(b'"'):
        return None
    try:
        return msgspec.json.decode(scalar, type=str)
    except (UnicodeDecodeError, msgspec.DecodeError):
        return None


def _replaced(text: bytes, spans: list[tuple[int, int, bytes]]) -> bytes:
    parts, done = [], 0
    for start, end, value in spans:
        parts += [text[done:start], value]
        done = end
    return b"".join([*parts, text[done:]])
