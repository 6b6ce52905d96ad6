"""Builders whose arguments are all optional: a test names only what it is about."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from simulator.blocks import PrefixCache
from simulator.clock import Timing
from simulator.engine import Engine
from simulator.hashing import Hasher, Identity
from simulator.types import EngineRequest, Output, StepResult

_names = itertools.count()


def engine(
    *,
    num_blocks: int = 65,
    block_size: int = 4,
    max_model_len: int = 1024,
    concurrency: int = 64,
    max_loras: int = 1,
    max_batched_tokens: int = 8192,
    timing: Timing | None = None,
) -> Engine:
    return Engine(
        PrefixCache(num_blocks, block_size),
        Hasher(block_size),
        timing or Timing(),
        max_model_len=max_model_len,
        concurrency=concurrency,
        max_loras=max_loras,
        max_batched_tokens=max_batched_tokens,
    )


def request(
    prompt: Sequence[int] = (1, 2, 3),
    *,
    request_id: str = "",
    block_size: int = 4,
    max_tokens: int = 1,
    answer: Iterable[int] | None = None,
    identity: Identity | None = None,
    stop_token_ids: Iterable[int] = (),
    skips_lookup: bool = False,
    reports_reused: bool = False,
    fetched: bool = False,
) -> EngineRequest:
    """An answer that is not given counts up from 1,000, without end."""
    identity = identity or Identity()
    return EngineRequest(
        request_id=request_id or f"request-{next(_names)}",
        prompt_token_ids=prompt,
        digests=Hasher(block_size).chain(prompt, identity),
        max_tokens=max_tokens,
        answer=itertools.count(1000) if answer is None else iter(answer),
        identity=identity,
        stop_token_ids=frozenset(stop_token_ids),
        skips_lookup=skips_lookup,
        reports_reused=reports_reused,
        fetched=fetched,
    )


def run(engine: Engine, *requests: EngineRequest, now_s: float = 0.0) -> list[StepResult]:
    """Add requests and step until nothing is left to do; the clock stands still."""
    for one in requests:
        engine.add(one, now_s)
    results = []
    while engine.schedule(now_s) is not None:
        results.append(engine.complete(now_s))
    return results


def outputs(results: Iterable[StepResult]) -> list[Output]:
    return [output for result in results for output in result.outputs]


def cached_tokens(results: Iterable[StepResult]) -> int:
    """What the last request to be served had reused."""
    return outputs(results)[-1].cached_tokens
