"""A tokenizer that is away, falls back or is slow."""

from __future__ import annotations

from collections.abc import Iterator

from router.producers.tokens import Missing
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

SLOW_S = 0.1
"""Mean wait per request from which on it is named; a cold prompt of 100k tokens takes 40 ms."""

MIN_ASKED = 20

_FIXES = {
    Missing.UNAVAILABLE: "start the sidecar (warmroute tokenizer) on the socket that "
    "--tokenizer-socket or sidecar.socket names",
    Missing.UNKNOWN_MODEL: "give the sidecar the model under the name the engines serve: "
    "--model NAME=DIR",
    Missing.NOT_READY: "see the sidecar's log for why the model does not load",
    Missing.BUSY: "give the sidecar more --workers, or a longer queue",
}
"""What mends the cause that most requests have; for others the sidecar's log tells."""

_OF_THE_REQUEST = frozenset({Missing.REFUSED, Missing.UNSUPPORTED, Missing.NOT_SERVED})
"""What lies at the request and not at the tokenizer."""


def away(case: Case) -> Iterator[Finding]:
    """It is not reached, or a model is not ready."""
    for tokenizer in case.tokenizers:
        stats = tokenizer.stats
        if stats.connected and not stats.not_ready and not stats.hanging:
            continue
        what = "is not reached" if not stats.connected else "does not answer in time"
        if stats.not_ready:
            what = f"is not ready: {', '.join(stats.not_ready)}"
        yield Finding(
            code="tokenizer-away",
            about="tokenizer",
            what=f"it {what}; requests go by load alone",
            evidence={
                "connected": stats.connected,
                "hanging": stats.hanging,
                "not_ready": list(stats.not_ready),
            },
            fix=_FIXES[Missing.NOT_READY if stats.not_ready else Missing.UNAVAILABLE],
        )


def falling_back(case: Case) -> Iterator[Finding]:
    """Requests got no token ids and went by load."""
    for number, tokenizer in enumerate(case.tokenizers):
        stats = tokenizer.stats
        missing = {
            reason: int(case.grown(("missing", number, reason), count))
            for reason, count in stats.missing.items()
            if reason not in _OF_THE_REQUEST
        }
        missing = {reason: count for reason, count in missing.items() if count}
        if not missing:
            continue
        with_ids = int(case.grown(("tokenized", number), stats.tokenized))
        most = max(missing, key=missing.__getitem__)
        total = sum(missing.values())
        yield Finding(
            code="tokenizer-falls-back",
            about="tokenizer",
            what=f"{total} of {total + with_ids} requests went by load alone, most because: {most}",
            evidence={
                "missing": {str(reason): count for reason, count in missing.items()},
                "tokenized": with_ids,
                "within_s": round(case.window_s),
            },
            fix=_FIXES.get(most, "see the sidecar's log and /metrics; a larger sidecar.timeout "
            "gives it more time"),
        )  # fmt: skip


def slow(case: Case) -> Iterator[Finding]:
    """Requests wait long for their token ids."""
    for number, tokenizer in enumerate(case.tokenizers):
        stats = tokenizer.stats
        asked = case.grown(("asked", number), sum(stats.took_buckets))
        took_s = case.grown(("took", number), stats.took_s)
        if asked < MIN_ASKED or took_s / asked < SLOW_S:
            continue
        yield Finding(
            code="tokenizer-slow",
            about="tokenizer",
            what=f"a request waits {took_s / asked * 1e3:.0f} ms for its token ids",
            evidence={
                "mean_ms": round(took_s / asked * 1e3, 1),
                "expected_ms_below": SLOW_S * 1e3,
                "requests": int(asked),
            },
            fix="see warmroute_tokenizer_encode_seconds of the sidecar and its log, which says "
            "where a model takes the slow exact way; give it more --workers and cores",
        )
