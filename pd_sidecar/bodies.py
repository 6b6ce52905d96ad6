"""Request bodies: the client's, and those that engines get. Values keep their bytes.

A body is read as its top-level fields with the raw bytes of each value, so what is not replaced
reaches the engine as the client wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Fields = Mapping[str, msgspec.Raw]

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
GENERATE = "/inference/v1/generate"

PATHS = frozenset({COMPLETIONS, CHAT, MESSAGES, RESPONSES, GENERATE})
"""Where a prompt can be prefilled elsewhere."""

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

_ONE, _FALSE, _NULL = (msgspec.Raw(text) for text in (b"1", b"false", b"null"))

_SAMPLING = "sampling_params"

_LIMITS: Mapping[str, tuple[str, ...]] = {
    COMPLETIONS: ("max_tokens",),
    CHAT: ("max_tokens", "max_completion_tokens"),
    MESSAGES: ("max_tokens",),
    RESPONSES: ("max_output_tokens",),
    GENERATE: ("max_tokens",),
}
"""Path -> the fields that bound the answer."""


def read(body: bytes) -> Fields | None:
    """The fields; None for what is no JSON object: the engine's own refusal fits best."""
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return None


def raw(value: object) -> msgspec.Raw:
    """A value as a field has it."""
    return msgspec.Raw(msgspec.json.encode(value))


def value(fields: Fields, name: str) -> object:
    """A field's value; None where it is absent, null or no JSON."""
    try:
        return msgspec.json.decode(fields.get(name, _NULL))
    except msgspec.DecodeError:
        return None


def write(fields: Fields) -> bytes:
    """The body of these fields."""
    return msgspec.json.encode(fields)


def one_token(path: str, fields: Fields) -> dict[str, msgspec.Raw]:
    """The same prompt, answered with one token and as a whole."""
    asked = {name: raw_ for name, raw_ in fields.items() if name != "stream_options"}
    asked["stream"] = _FALSE
    if path != GENERATE:
        return asked | _least(path, fields)
    nested = read(fields.get(_SAMPLING, _NULL)) or {}
    asked[_SAMPLING] = msgspec.Raw(write({**nested, **_least(path, nested)}))
    return asked


def _least(path: str, fields: Fields) -> dict[str, msgspec.Raw]:
    limits = dict.fromkeys(_LIMITS[path], _ONE)
    # vLLM refuses a least that exceeds the most.
    return limits | ({"min_tokens": _ONE} if "min_tokens" in fields else {})
