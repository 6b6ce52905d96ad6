"""Recordings of a real vLLM 0.32, as values: what was asked, what it reused, what it announced."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

CAPTURES = Path(__file__).parent.parent / "captures"

ARRIVALS = {
    "042-two-prompts-one-call": (1, 1),
    "043-n-2": (1, 1),
    "045-8-chats-shared-system": (1, 0, 1, 6),
    "046-4-identical-prompts": (1, 3),
    "057-preempt-12-long": (1, 11),
}
"""How many requests of a step reached the engine before each of its first engine steps."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of a recorded request, with what the real engine sampled for it."""

    prompt: list[int]
    output: list[int]
    lora: str | None
    cache_salt: str | None
    session_id: str | None
    skips_lookup: bool
    reports_reused: bool


class RecordedStep(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        asked: In the order of arrival at the engine; empty for a reset of the cache.
        cached_tokens: What each HTTP request reused; of several prompts the last one's.
        payloads: The payload frames that the step gave rise to.
    """

    name: str
    asked: list[Asked]
    concurrent: bool
    cached_tokens: list[int]
    payloads: list[bytes]

    @property
    def arrivals(self) -> tuple[int, ...]:
        return ARRIVALS.get(self.name, (len(self.asked),))


def lines(name: str) -> Iterator[Any]:
    """The JSON values of a .jsonl file."""
    with (CAPTURES / name).open() as file:
        yield from map(json.loads, file)


def frames(name: str) -> Iterator[tuple[str, list[bytes]]]:
    """Step and frames of each recorded message."""
    for line in lines(f"{name}.frames.jsonl"):
        yield line["step"], [base64.b64decode(frame) for frame in line["frames"]]


def steps(name: str) -> list[RecordedStep]:
    """A recording in order."""
    payloads: dict[str, list[bytes]] = {}
    for step, (_, _, payload) in frames(name):
        payloads.setdefault(step, []).append(payload)
    requests: dict[str, list[Any]] = {}
    for request in lines(f"{name}.requests.jsonl"):
        requests.setdefault(request["step"], []).append(request)
    return [_step(step, asked, payloads.get(step, [])) for step, asked in requests.items()]


def _step(name: str, requests: list[Any], payloads: list[bytes]) -> RecordedStep:
    generating = [request for request in requests if request.get("prompt_token_ids")]
    asked = [one for request in generating for one in _asked(request)]
    concurrent = len(requests) > 1
    return RecordedStep(
        name=name,
        asked=_by_first_store(asked, payloads) if concurrent else asked,
        concurrent=concurrent,
        cached_tokens=[request["cached_tokens"] for request in generating],
        payloads=payloads,
    )


def _asked(request: Any) -> Iterator[Asked]:
    body, prompts = request["body"], request["prompt_token_ids"]
    xargs = body.get("vllm_xargs", {})
    # The restart recording lacks the sampled tokens; two of them never fill a block there.
    made_up = [[7] * body["max_tokens"]] * len(prompts)
    for prompt, output in zip(prompts, request.get("output_token_ids") or made_up, strict=True):
        yield Asked(
            prompt=prompt,
            output=output,
            lora=request["lora"],
            cache_salt=request["cache_salt"],
            session_id=body.get("session_id") or request["headers"].get("X-Session-ID"),
            skips_lookup="prompt_logprobs" in body,
            reports_reused=xargs.get("kv_cache_report_mode") == "full",
        )


def _by_first_store(asked: list[Asked], payloads: list[bytes]) -> list[Asked]:
    """Concurrent requests in the order in which the engine first stored blocks of theirs."""
    stored = [
        event["token_ids"]
        for payload in payloads
        for event in msgspec.msgpack.decode(payload)[1]
        if event["type"] == "BlockStored"
    ]

    def place(one: Asked) -> int:
        def covers(tokens: list[int]) -> bool:
            starts = range(0, len(one.prompt) - len(tokens) + 1, 16)
            return any(one.prompt[start : start + len(tokens)] == tokens for start in starts)

        return next((i for i, tokens in enumerate(stored) if covers(tokens)), len(stored))

    return sorted(asked, key=place)


class Sample(msgspec.Struct, frozen=True):
    """One recorded HTTP exchange."""

    name: str
    method: str
    path: str
    headers: dict[str, str] | None
    body: Any
    status: int
    response_headers: dict[str, str]
    response: Any


def samples() -> dict[str, Sample]:
    """All exchanges by name."""
    found = (msgspec.convert(line, Sample) for line in lines("http_samples.jsonl"))
    return {sample.name: sample for sample in found}


def sse_events(name: str) -> list[bytes]:
    """The events of a recorded stream, each with the blank line that ends it."""
    _, _, body = (CAPTURES / f"{name}.txt").read_bytes().partition(b"\n\n")
    return [event + b"\n\n" for event in body.strip().split(b"\n\n")]
