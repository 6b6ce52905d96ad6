"""What was predicted, held against the engines' own prefix cache counters."""

from __future__ import annotations

from collections.abc import Iterator

from router.telemetry.doctor.case import Case, compared
from router.telemetry.doctor.finding import Finding

MIN_TOKENS = 2000
"""So many prompt tokens must have been compared."""

TOLERANCE = 0.05
"""Difference of the shares of cached tokens that is let pass."""

SAME_TRAFFIC = 0.3
"""Above this difference of all prompt tokens, the engine counts other requests than ours."""


def off(case: Case) -> Iterator[Finding]:
    """An endpoint reuses more or less than was predicted."""
    for endpoint in case.endpoints:
        now, address = compared(case, endpoint), endpoint.address
        grown = {name: case.grown((name, address), value) for name, value in now.items()}
        prompt, queries = grown.get("prompt", 0.0), grown.get("queries", 0.0)
        if min(prompt, queries) < MIN_TOKENS or abs(queries / prompt - 1) > SAME_TRAFFIC:
            continue
        ours, theirs = grown["predicted"] / prompt, grown["hits"] / queries
        if abs(ours - theirs) <= TOLERANCE:
            continue
        low = ours < theirs
        yield Finding(
            code="prediction-off",
            about=address,
            what=f"{ours:.0%} of its prompt tokens were expected from its cache, the engine "
            f"reports {theirs:.0%}",
            evidence={
                "predicted_tokens": int(grown["predicted"]),
                "prompt_tokens": int(prompt),
                "engine_hits": int(grown["hits"]),
                "engine_queries": int(queries),
                "within_s": round(case.window_s),
            },
            fix=_LOW if low else _HIGH,
        )


_LOW = (
    "the index knows less than the engine: see whether its event stream is partial, its tokenizer "
    "differs, or its model or adapter names do"
)

_HIGH = (
    "the engine reuses less than it holds: see whether prefix caching is on, and whether "
    "evictions reach the index (removals in the event stream)"
)
