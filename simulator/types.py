"""The values that go into and come out of the engine core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from simulator.hashing import Identity
from simulator.wire import Event


class FinishReason(StrEnum):
    """Why a request ended, in the words of the API."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a caller asks of the engine.

    Attributes:
        digests: Hashes of the prompt's full blocks, from the engine's hasher.
        answer: Yields the sampled token ids; its end ends the request as a stop token would.
        stop_token_ids: A sampled token of these ends the request with reason `stop`.
        skips_lookup: Compute the whole prompt (vLLM with `prompt_logprobs`).
        reports_reused: Announce reused blocks once more (vLLM's report mode `full`).
        fetched: Another engine has computed the prompt; only its last token is left.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    digests: Sequence[bytes]
    max_tokens: int
    answer: Iterator[int]
    stop_token_ids: frozenset[int] = frozenset()
    identity: Identity = Identity()
    session_id: str | None = None
    skips_lookup: bool = False
    reports_reused: bool = False
    fetched: bool = False


class Output(msgspec.Struct, frozen=True):
    """One sampled token, or an end without one.

    Attributes:
        cached_tokens: How many prompt tokens were reused when the request was first admitted.
        blocks: Numbers of the blocks it held at its end; empty before.
    """

    request_id: str
    token_id: int | None
    finish_reason: FinishReason | None
    cached_tokens: int
    blocks: tuple[int, ...] = ()


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a request that ended; times in seconds."""

    reason: FinishReason
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    max_tokens: int
    preemptions: int
    queue_s: float
    prefill_s: float
    decode_s: float
    e2e_s: float


class Step(msgspec.Struct, frozen=True):
    """A decided step: how long it takes, and how many tokens of what kind it computes."""

    duration_s: float
    prefill_tokens: int
    decoding: int


class StepResult(msgspec.Struct, frozen=True):
    """What a step brought.

    Attributes:
        first_token_s: Seconds from arrival to the first token, of requests that got theirs.
        between_tokens_s: Seconds since the token before, of requests that got a further one.
    """

    events: tuple[Event, ...]
    outputs: tuple[Output, ...]
    finished: tuple[Finished, ...]
    first_token_s: tuple[float, ...]
    between_tokens_s: tuple[float, ...]


class Counts(msgspec.Struct):
    """Totals since the start, in tokens but for `preemptions`.

    Attributes:
        queried: Tokens of admitted requests that were looked up.
        hit: Those of them that were reused.
        prompt: Prompt tokens of requests whose prefill ended.
        prompt_cached: Those of them that were reused.
        generated: Sampled tokens.
    """

    queried: int = 0
    hit: int = 0
    prompt: int = 0
    prompt_cached: int = 0
    generated: int = 0
    preemptions: int = 0
