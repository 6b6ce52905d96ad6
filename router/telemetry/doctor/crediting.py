"""Blocks that engines tell of and that are not credited."""

from __future__ import annotations

from collections.abc import Iterator

from indexer.events import Reason
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

_TOLD_APART = frozenset(
    {
        Reason.FILTERED,
        Reason.NO_MODEL,
        Reason.BLOCK_SIZE_MISMATCH,
        Reason.OVER_BUDGET,
        Reason.PARKED_OVERFLOW,
        Reason.UNSUPPORTED_GROUP,
        Reason.SEVERAL_GROUPS,
        Reason.MISSING_GROUP,
    }
)
"""What has a finding of its own."""


def groups(case: Case) -> Iterator[Finding]:
    """The engine has KV cache groups that nobody can judge."""
    for prefix in case.prefixes:
        for holder, ledger in prefix.index.ledgers.items():
            if ledger.refused is None or ledger.refused is Reason.BLOCK_SIZE_MISMATCH:
                continue
            yield Finding(
                code="groups-unknown",
                about=holder.address,
                what=f"nothing it holds is credited: {ledger.refused}",
                evidence={"reason": str(ledger.refused), "producer": prefix.name},
                fix="such a model cannot be matched by its events yet: use "
                "approx-prefix-cache-producer for it",
            )


def index_full(case: Case) -> Iterator[Finding]:
    """The index has no room for what an engine holds."""
    for prefix in case.prefixes:
        bounds = prefix.bounds
        for holder, ledger in prefix.index.ledgers.items():
            if not ledger.dropped_blocks:
                continue
            yield Finding(
                code="index-full",
                about=holder.address,
                what=f"no room in the index for {ledger.dropped_blocks} of its blocks",
                evidence={
                    "dropped_blocks": ledger.dropped_blocks,
                    "bytes": prefix.index.stats().bytes,
                    "index_bytes": bounds.index_bytes,
                    "index_bytes_per_endpoint": bounds.index_bytes_per_endpoint,
                },
                fix="raise --index-bytes or --index-bytes-per-endpoint",
            )


def left_out(case: Case) -> Iterator[Finding]:
    """Events, or whole messages, that could not be understood."""
    counts: dict[str, dict[str, int]] = {}
    for prefix, feed in case.feeds():
        rejected = dict(feed.rejected)
        for holder in feed.holders:
            ledger = prefix.index.ledgers.get(holder)
            for reason, count in (ledger.rejected if ledger is not None else {}).items():
                rejected[reason] = rejected.get(reason, 0) + count
        odd = {str(r): n for r, n in rejected.items() if n and r not in _TOLD_APART}
        if odd:
            counts[feed.source.holder.address] = odd
    for address, odd in counts.items():
        yield Finding(
            code="events-left-out",
            about=address,
            what=f"{sum(odd.values())} of its messages and events could not be used",
            evidence={"reasons": odd},
            fix="see that engine and router are of versions that fit; docs/plugins.md names the "
            "events that are read",
        )
