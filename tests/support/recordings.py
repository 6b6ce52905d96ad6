"""Recordings of a real vLLM: its frames, the requests that caused them, what it reused."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

CAPTURES = Path(__file__).parents[1] / "captures"

BLOCK_SIZE = 16


class Message(msgspec.Struct, frozen=True):
    """One message of the engine's publisher.

    Attributes:
        publisher: Which of several publishers sent it; 0 where there is one.
    """

    frames: tuple[bytes, ...]
    publisher: int


class Asked(msgspec.Struct, frozen=True):
    """One request to the engine.

    Attributes:
        prompts: Token ids of each prompt.
        cached_tokens: What the engine reused; None where it was not a completion.
        predictable: It ran alone, asked for one prompt and let the engine look it up.
        rank: Data-parallel rank the client asked for.
    """

    step: str
    prompts: Sequence[Sequence[int]]
    cached_tokens: int | None
    predictable: bool
    lora: str | None
    cache_salt: str | None
    rank: int | None


def requests(name: str) -> list[Asked]:
    """The requests of a recording, in order."""
    return [_asked(line) for line in _lines(f"{name}.requests.jsonl")]


def messages(name: str) -> Mapping[str, list[Message]]:
    """Step -> the messages that came after its request was sent and before the next was."""
    by_step: defaultdict[str, list[Message]] = defaultdict(list)
    for line in _lines(f"{name}.frames.jsonl"):
        by_step[line["step"]].append(_message(line))
    return by_step


def _lines(file: str) -> Iterator[dict[str, Any]]:
    with (CAPTURES / file).open("rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line)


def _message(line: Mapping[str, Any]) -> Message:
    frames = tuple(base64.b64decode(frame) for frame in line["frames"])
    endpoint = str(line.get("endpoint", ""))
    return Message(frames, 1 if endpoint.endswith("5558") else 0)


def _asked(line: Mapping[str, Any]) -> Asked:
    prompts = line.get("prompt_token_ids") or []
    headers = {name.lower(): value for name, value in line.get("headers", {}).items()}
    rank = headers.get("x-data-parallel-rank")
    return Asked(
        step=line["step"],
        prompts=prompts,
        cached_tokens=line.get("cached_tokens"),
        predictable=not line.get("concurrent")
        and len(prompts) == 1
        and "prompt_logprobs" not in line["body"],
        lora=line.get("lora"),
        cache_salt=line.get("cache_salt"),
        rank=None if rank is None else int(rank),
    )
