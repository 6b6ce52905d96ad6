"""The bodies and stream chunks that vLLM 0.32 answers with, key by key in its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.openai import Ask, Kind

FINGERPRINT = "vllm-0.32.0-65bef23a"
VERSION = "0.32.0"

DONE = b"data: [DONE]\n\n"
"""The last bytes of every stream."""


class Head(msgspec.Struct, frozen=True):
    """What all chunks and the body of one answer have in common.

    Attributes:
        created: Unix seconds.
        model: The name that the request used.
    """

    kind: Kind
    answer_id: str
    created: int
    model: str
    ask: Ask


class Choice(msgspec.Struct):
    """One answer as it grows.

    Attributes:
        streamed: Whether a chunk of it has been made.
        blocks: Numbers of the blocks that held it at its end.
        stop_reason: The stop string or token that ended it; None for the model's own end.
    """

    index: int
    prompt_token_ids: Sequence[int]
    token_ids: list[int] = []
    text: str = ""
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    cached_tokens: int = 0
    blocks: Sequence[int] = ()
    streamed: bool = False


def sse(chunk: Mapping[str, Any]) -> bytes:
    """A chunk framed as a server-sent event."""
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def opening(head: Head, choice: Choice) -> dict[str, Any]:
    """The chunk a chat's choice starts with, before its first token."""
    shown = {
        "index": choice.index,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    chunk = _chunk(head, [shown])
    if head.ask.repeats_usage:
        chunk["usage"] = _usage_so_far(choice)
    chunk["prompt_token_ids"] = _if_asked(head, choice.prompt_token_ids)
    chunk["prompt_text"] = None
    return chunk


def delta(head: Head, choice: Choice, text: str, token_ids: Sequence[int]) -> dict[str, Any]:
    """The chunk for what a step added to a choice, whose own fields are up to date already."""
    shown = (_chat_delta if head.kind == "chat" else _completion_delta)(head, choice, text)
    shown["token_ids"] = _if_asked(head, token_ids)
    chunk = _chunk(head, [shown])
    if head.ask.repeats_usage:
        chunk["usage"] = _usage_so_far(choice)
    if choice.finish_reason is not None and not head.ask.includes_usage:
        chunk["system_fingerprint"] = FINGERPRINT
    return chunk


def closing_usage(head: Head, choices: Sequence[Choice]) -> dict[str, Any]:
    """The chunk without choices that ends a stream with `include_usage`."""
    chunk = _chunk(head, [])
    details = {"cached_tokens": choices[-1].cached_tokens}
    if head.kind == "chat":
        details["created_cache_tokens"] = 0
    chunk["usage"] = {**_totals(head, choices), "prompt_tokens_details": details}
    chunk["system_fingerprint"] = FINGERPRINT
    return chunk


def complete(
    head: Head, choices: Sequence[Choice], transfer: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The body of an answer that is not streamed; `transfer` is what is handed over with it."""
    shown = _chat_choice if head.kind == "chat" else _completion_choice
    body: dict[str, Any] = {
        "id": head.answer_id,
        "object": "chat.completion" if head.kind == "chat" else "text_completion",
        "created": head.created,
        "model": head.model,
        "choices": [shown(head, choice) for choice in choices],
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": _usage(head, choices),
    }
    if head.kind == "chat":
        body["prompt_logprobs"] = None
        body["prompt_token_ids"] = _if_asked(head, choices[0].prompt_token_ids)
        body["prompt_text"] = None
    return body | {"kv_transfer_params": transfer, "ec_transfer_params": None, "metrics": None}


def _chunk(head: Head, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": head.answer_id,
        "object": "chat.completion.chunk" if head.kind == "chat" else "text_completion",
        "created": head.created,
        "model": head.model,
        "choices": choices,
    }


def _chat_delta(head: Head, choice: Choice, text: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "index": choice.index,
        "delta": {"content": text},
        "logprobs": None,
        "finish_reason": choice.finish_reason,
    }
    if choice.finish_reason is not None:
        shown["stop_reason"] = choice.stop_reason
    return shown


def _completion_delta(head: Head, choice: Choice, text: str) -> dict[str, Any]:
    opens = not choice.streamed
    return {
        "index": choice.index,
        "text": text,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "prompt_token_ids": _if_asked(head, choice.prompt_token_ids) if opens else None,
    }


def _chat_choice(head: Head, choice: Choice) -> dict[str, Any]:
    return {
        "index": choice.index,
        "message": {
            "role": "assistant",
            "content": choice.text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        },
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": _if_asked(head, choice.token_ids),
        "routed_experts": None,
    }


def _completion_choice(head: Head, choice: Choice) -> dict[str, Any]:
    return {
        "index": choice.index,
        "text": choice.text,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": _if_asked(head, choice.token_ids),
        "prompt_logprobs": None,
        "prompt_token_ids": _if_asked(head, choice.prompt_token_ids),
        "routed_experts": None,
    }


def _usage(head: Head, choices: Sequence[Choice]) -> dict[str, Any]:
    details = {
        "cached_tokens": choices[-1].cached_tokens,
        "created_cache_tokens": 0 if head.kind == "chat" else None,
        "multimodal_tokens": None,
    }
    return {
        **_totals(head, choices),
        "prompt_tokens_details": details,
        "completion_tokens_details": None,
    }


def _totals(head: Head, choices: Sequence[Choice]) -> dict[str, int]:
    """A prompt counts once, however many choices answer it."""
    prompts = sum(len(choice.prompt_token_ids) for choice in choices) // head.ask.choices
    outputs = sum(len(choice.token_ids) for choice in choices)
    return _tokens(prompts, outputs)


def _usage_so_far(choice: Choice) -> dict[str, Any]:
    totals = _tokens(len(choice.prompt_token_ids), len(choice.token_ids))
    return {**totals, "completion_tokens_details": None}


def _tokens(prompts: int, outputs: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompts,
        "total_tokens": prompts + outputs,
        "completion_tokens": outputs,
    }


def _if_asked(head: Head, token_ids: Sequence[int]) -> Sequence[int] | None:
    return token_ids if head.ask.return_token_ids else None


def rendered(
    head: Head, body: Mapping[str, Any], request_id: str, token_ids: Sequence[int]
) -> dict[str, Any]:
    """What the render routes answer for one prompt: a request to generate from these tokens."""
    return {
        "request_id": request_id,
        "token_ids": token_ids,
        "token_offsets": None,
        "features": None,
        "content_parts": None,
        "sampling_params": _sampling_params(head, body),
        "model": head.model,
        "reasoning_ended": None,
        "reasoning_parser_kwargs": None,
        "return_token_ids": head.ask.return_token_ids,
        "output_mode": "tokens",
        "stream": bool(head.ask.stream),
        "stream_options": body.get("stream_options"),
        "cache_salt": head.ask.cache_salt,
        "priority": body.get("priority", 0),
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }


def _sampling_params(head: Head, body: Mapping[str, Any]) -> dict[str, Any]:
    """Greedy requests show no bounds on the distribution: they have no use for them."""
    ask = head.ask
    heat = 1.0 if ask.temperature is None else ask.temperature
    bounds = {"top_p": body.get("top_p", 1.0), "min_p": body.get("min_p", 0.0)}
    transfer = body.get("kv_transfer_params")
    return {
        "presence_penalty": body.get("presence_penalty", 0.0),
        "frequency_penalty": body.get("frequency_penalty", 0.0),
        "repetition_penalty": body.get("repetition_penalty", 1.0),
        "temperature": heat,
        **(bounds if heat > 0 else {}),
        "stop": ask.stops,
        "stop_token_ids": ask.stop_token_ids or [],
        "max_tokens": ask.limit(head.kind),
        "output_kind": 2,
        "skip_clone": True,
        **({"extra_args": {"kv_transfer_params": transfer}} if transfer else {}),
        "bad_words": [],
        "skip_reading_prefix_cache": ask.prompt_logprobs is not None,
    }
