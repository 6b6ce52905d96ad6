"""What a body of the OpenAI API asks for, checked in vLLM's words. Unknown fields are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from simulator.errors import ApiError
from simulator.transfer import TransferAsk

Kind = Literal["completion", "chat"]

COMPLETION_MAX_TOKENS = 16
"""Output tokens of a /v1/completions request that names no limit; a chat has none."""


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream tells about usage, at its end and in each chunk."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Xargs(msgspec.Struct, frozen=True):
    """The part of `vllm_xargs` that has an effect here."""

    kv_cache_report_mode: str | None = None
    session_id: str | None = None


class Ask(msgspec.Struct, frozen=True):
    """The fields of a body that the engine acts on; the prompt and the messages are elsewhere."""

    model: str | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    prompt_logprobs: int | None = None
    cache_salt: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    vllm_xargs: Xargs | None = None
    kv_transfer_params: TransferAsk | None = None

    @property
    def choices(self) -> int:
        return 1 if self.n is None else self.n

    @property
    def stops(self) -> tuple[str, ...]:
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(stop for stop in stops if stop)

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def repeats_usage(self) -> bool:
        options = self.stream_options
        return self.includes_usage and bool(options and options.continuous_usage_stats)

    @property
    def reports_reused(self) -> bool:
        return bool(self.vllm_xargs and self.vllm_xargs.kv_cache_report_mode == "full")

    def limit(self, kind: Kind) -> int | None:
        """The most output tokens asked for; None leaves it to the answer and the context."""
        if kind == "completion":
            return COMPLETION_MAX_TOKENS if self.max_tokens is None else self.max_tokens
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def session(self, header: str | None) -> str | None:
        """The session's id: the body's, else the header's, else the one in `vllm_xargs`."""
        return (
            self.session_id or header or (self.vllm_xargs.session_id if self.vllm_xargs else None)
        )


def parse_json(raw: bytes) -> dict[str, Any]:
    """The body as a mapping. Raises ApiError."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"
        raise ApiError.invalid(
            f"{{'type': 'json_invalid', 'loc': 'body.{place}', 'msg': 'JSON decode error',"
            f" 'input': '<dict of 0 items>', 'ctx': {{'error': {reason!r}}}}}",
            f"body.{place}",
        ) from error
    if not isinstance(body, dict):
        raise ApiError.invalid(
            "{'type': 'model_attributes_type', 'loc': 'body',"
            " 'msg': 'Input should be a valid dictionary or object to extract fields from'}",
            "body",
        )
    return body


def parse_ask(body: Mapping[str, Any], kind: Kind) -> Ask:
    """The fields that matter, in range. Raises ApiError."""
    if kind == "chat" and "messages" not in body:
        raise ApiError.invalid(
            "{'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required',"
            f" 'input': '<dict of {len(body)} items>'}}",
            "body.messages",
        )
    try:
        ask = msgspec.convert(body, Ask, strict=False)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$.")
        field = f"body.{path.rstrip('`')}"
        raise ApiError.invalid(f"{{'loc': '{field}', 'msg': '{what}'}}", field) from error
    if kind == "completion" and body.get("prompt") in (None, "", []):
        raise ApiError.bad(
            "Either prompt or prompt_embeds must be provided and non-empty.", "prompt"
        )
    if kind == "chat" and body["messages"] == []:
        raise ApiError.bad(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    _check_ranges(ask, kind)
    return ask


def _check_ranges(ask: Ask, kind: Kind) -> None:
    limit = ask.limit(kind)
    if limit is not None and limit < 1:
        raise ApiError.bad(f"max_tokens must be at least 1, got {limit}.", "max_tokens", limit)
    if ask.choices < 1:
        raise ApiError.bad(f"n must be at least 1, got {ask.choices}.", "n", ask.choices)
    heat = ask.temperature
    if heat is not None and heat < 0:
        raise ApiError.bad(f"temperature must be non-negative, got {heat}.", "temperature", heat)
    if ask.cache_salt == "":
        raise ApiError.bad(
            "Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt"
        )
    if ask.stream_options is not None and not ask.stream:
        raise ApiError.bad("Stream options can only be defined when `stream=True`.")
