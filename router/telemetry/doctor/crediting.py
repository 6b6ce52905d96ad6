"""Blocks that engines tell of and that are not credited."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

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
    for address, counts in _rejected(case).items():
        odd = {str(r): n for r, n in counts.items() if r not in _TOLD_APART}
        if not odd:
            continue
        yield Finding(
            code="events-left-out",
            about=address,
            what=f"{sum(odd.values())} of its messages and events could not be used",
            evidence={"reasons": odd},
            fix="see that engine and router are of versions that fit; docs/plugins.md names the "
            "events that are read",
        )


def _rejected(case: Case) -> Mapping[str, Counter[Reason]]:
    """Endpoint address -> what its present process sent that did not count, by reason."""
    counts: defaultdict[str, Counter[Reason]] = defaultdict(Counter)
    for prefix in case.prefixes:
        holders = set()
        for feed in prefix.index.feeds():
            counts[feed.source.holder.address].update(feed.rejected.present)
            holders |= feed.holders
        for holder, ledger in prefix.index.ledgers.items():
            if holder in holders:
                counts[holder.address].update(ledger.rejected.present)
    return counts
