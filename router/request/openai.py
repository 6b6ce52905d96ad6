"""OpenAI completion and chat bodies: what is read of them, and what is refused.

A body with a wrong type in a field the router reads is a 400; fields it does not read are the
engine's business.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, TypeVar

import msgspec

from router.errors import BadRequest

_MAX_TOKEN_ID = 2**31 - 1
"""Engines keep token ids in signed 32-bit tensors."""


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Body(msgspec.Struct):
    """Fields that both APIs share."""

    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    cache_salt: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    vllm_xargs: dict[str, Any] | None = None

    @property
    def tells_usage(self) -> bool:
        """The answer will say what it cost: a stream does so only when asked."""
        options = self.stream_options
        return not self.stream or (options is not None and bool(options.include_usage))


class Completion(_Body):
    """``POST /v1/completions``."""

    prompt: str | list[str | int | list[int]] | None = None
    prompt_embeds: Any = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[str | dict[str, Any]] | None = None


class Chat(_Body, kw_only=True):
    """``POST /v1/chat/completions``."""

    messages: list[_Message]


_T = TypeVar("_T")

_completion = msgspec.json.Decoder(Completion)
_chat = msgspec.json.Decoder(Chat)


def completion(body: bytes) -> Completion:
    """Read a completion body. Raises BadRequest."""
    read = _decode(_completion, body)
    if read.prompt is None and read.prompt_embeds is None:
        raise BadRequest("`prompt` is missing or null: expected text or token ids - at `$.prompt`")
    return read


def chat(body: bytes) -> Chat:
    """Read a chat body. Raises BadRequest."""
    read = _decode(_chat, body)
    if not read.messages:
        raise BadRequest("expected at least one message - at `$.messages`")
    return read


def first_prompt_ids(prompt: str | list[str | int | list[int]] | None) -> bytes | None:
    """The first prompt's ids as little-endian u32 where the client sent ids, else None.

    Raises BadRequest where a list mixes the four legal shapes or holds an impossible id.
    """
    if not isinstance(prompt, list) or not prompt:
        return None
    first = prompt[0]
    if any(type(item) is not type(first) for item in prompt):
        raise BadRequest(
            "expected only texts, only token ids or only lists of them - at `$.prompt`"
        )
    if isinstance(first, str):
        return None
    for ids in prompt if isinstance(first, list) else [prompt]:
        _check_ids(ids)  # type: ignore[arg-type]
    return _packed(first if isinstance(first, list) else prompt)  # type: ignore[arg-type]


def is_empty(prompt: str | list[str | int | list[int]] | None) -> bool:
    """Nothing to match: no text, no ids."""
    return not prompt or (isinstance(prompt, list) and prompt[0] in ("", []))


def _check_ids(ids: list[int]) -> None:
    if ids and not (min(ids) >= 0 and max(ids) <= _MAX_TOKEN_ID):
        raise BadRequest(f"token ids lie between 0 and {_MAX_TOKEN_ID} - at `$.prompt`")


def _packed(ids: list[int]) -> bytes:
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def refuse_reserved(body: _Body, *, allow_kv_transfer_params: bool) -> None:
    """Refuse what only the router may send to an engine. Raises BadRequest.

    Incomplete transfer parameters make a vLLM decode engine exit, and its full report mode
    announces blocks a second time that it removes only once.
    """
    if body.kv_transfer_params is not None and not allow_kv_transfer_params:
        raise BadRequest("`kv_transfer_params` may not be sent by clients")
    if body.vllm_xargs is not None and "kv_cache_report_mode" in body.vllm_xargs:
        raise BadRequest("`vllm_xargs.kv_cache_report_mode` may not be sent by clients")


def _decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    if not body:
        raise BadRequest("the request body is empty")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read the request body: {error}") from error
    except RecursionError as error:
        raise BadRequest("cannot read the request body: it is nested too deeply") from error
