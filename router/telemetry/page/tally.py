"""Counts what the page shows of the requests: in all, by endpoint, and over the last minutes.

Totals only grow. Every few seconds a copy of them is kept; the difference of two copies is what
happened between them. A request costs a few additions, whether or not anybody looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from router.errors import RouterError
from router.pool.endpoint import Endpoint, EngineMetrics
from router.telemetry.decisions import Record

INTERVAL_S = 2.0
"""Between two copies."""

KEPT = 150
"""Copies: five minutes."""

SAMPLED = 512
"""Decisions per interval whose duration is kept."""

GUESS = "guess"
"""What blocks are counted as that only a guess says are held."""


class Share(msgspec.Struct, frozen=True):
    """What one endpoint was given.

    Attributes:
        requests: Requests it was picked for.
        prompt_tokens: Their prompts' tokens, where they are known.
        predicted_tokens: Those of them it was expected to reuse.
        queried_tokens: Prompt tokens that it looked up in its prefix cache, as it says.
        hit_tokens: Those it found.
    """

    requests: int = 0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    queried_tokens: float = 0.0
    hit_tokens: float = 0.0


class Totals(msgspec.Struct):
    """Since the start.

    Attributes:
        requests: Routed or refused.
        refused: Refused by the router.
        failed: Answered with an error, or not at all.
        prompt_tokens: Of requests whose tokens are known.
        predicted_tokens: Those of them that were expected to be reused.
        tiers: Those by the tier that holds them.
        queried_tokens: Prompt tokens that engines looked up in their prefix caches.
        hit_tokens: Those they found.
        shares: Endpoint address -> what it was given.
    """

    requests: int = 0
    refused: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    tiers: dict[str, int] = {}
    queried_tokens: float = 0.0
    hit_tokens: float = 0.0
    shares: dict[str, Share] = {}

    def copy(self) -> Totals:
        """One that does not grow."""
        return msgspec.structs.replace(self, tiers=dict(self.tiers), shares=dict(self.shares))


class Sample(msgspec.Struct, frozen=True):
    """The totals at one moment, and how long decisions took since the one before.

    Attributes:
        at: Unix time.
        p50_ms: Median; None where nothing was decided.
        p95_ms: So long at most for 19 of 20.
    """

    at: float
    totals: Totals
    p50_ms: float | None = None
    p95_ms: float | None = None


class Tally:
    """Told of each request, and of each moment."""

    def __init__(self, started_at: float) -> None:
        """`started_at`: Unix time."""
        self.totals = Totals()
        self._samples: deque[Sample] = deque([Sample(started_at, Totals())], maxlen=KEPT)
        self._took_ms: list[float] = []
        self._engines: dict[str, EngineMetrics] = {}

    @property
    def samples(self) -> Sequence[Sample]:
        """The copies kept, oldest first; at least one."""
        return self._samples

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        totals, endpoint = self.totals, record.endpoint or ""
        totals.requests += 1
        if len(self._took_ms) < SAMPLED:
            self._took_ms.append(record.took_ms)
        share = totals.shares.get(endpoint, _NOTHING)
        prompt, predicted = record.prompt_tokens or 0, 0
        if record.prompt_tokens is not None:
            predicted = record.predicted_cached_tokens or 0
            totals.prompt_tokens += prompt
        if predicted:
            totals.predicted_tokens += predicted
            self._by_tier(record, predicted)
        totals.shares[endpoint] = Share(
            share.requests + 1,
            share.prompt_tokens + prompt,
            share.predicted_tokens + predicted,
            share.queried_tokens,
            share.hit_tokens,
        )

    def refused(self, record: Record, error: RouterError) -> None:
        """A request was refused."""
        self.totals.requests += 1
        self.totals.refused += 1

    def ended(self, record: Record) -> None:
        """A request's exchange is over."""
        if record.status is None or record.status >= 400:
            self.totals.failed += 1

    def tick(self, now: float, endpoints: Sequence[Endpoint]) -> None:
        """Keep a copy where it is time for one. `now`: Unix time."""
        if now - self._samples[-1].at < INTERVAL_S:
            return
        self._read_engines(endpoints)
        took = sorted(self._took_ms)
        self._took_ms = []
        copy = self.totals.copy()
        self._samples.append(Sample(now, copy, quantile(took, 0.5), quantile(took, 0.95)))

    def _by_tier(self, record: Record, predicted: int) -> None:
        """Count reusable tokens by tier; what no event has confirmed is a guess."""
        computing = record.prefill.endpoints[0] if record.prefill else record.endpoint or ""
        held, left, tiers = record.prefix.get(computing), predicted, self.totals.tiers
        for tier, blocks in held.tiers.items() if held else ():
            tokens = min(blocks * record.block_size, left)
            tiers[tier] = tiers.get(tier, 0) + tokens
            left -= tokens
        if left:
            tiers[GUESS] = tiers.get(GUESS, 0) + left

    def _read_engines(self, endpoints: Sequence[Endpoint]) -> None:
        """Add what engines counted since the last look, and forget those that are gone."""
        known, self._engines = self._engines, {}
        for endpoint in endpoints:
            if endpoint.metrics is not None:
                self._engines[endpoint.address] = endpoint.metrics
                self._add(endpoint.address, endpoint.metrics, known.get(endpoint.address))
        here = {endpoint.address for endpoint in endpoints}
        for address in [a for a in self.totals.shares if a not in here]:
            del self.totals.shares[address]

    def _add(self, address: str, now: EngineMetrics, before: EngineMetrics | None) -> None:
        queries, hits = now.prefix_queries, now.prefix_hits
        if before is None or queries is None or hits is None:
            return
        if before.process_start == now.process_start:
            # What it counted before a restart is in the totals already.
            queries = max(queries - (before.prefix_queries or 0.0), 0.0)
            hits = max(hits - (before.prefix_hits or 0.0), 0.0)
        if not queries:
            return
        totals, share = self.totals, self.totals.shares.get(address, _NOTHING)
        totals.queried_tokens += queries
        totals.hit_tokens += hits
        totals.shares[address] = msgspec.structs.replace(
            share,
            queried_tokens=share.queried_tokens + queries,
            hit_tokens=share.hit_tokens + hits,
        )


_NOTHING = Share()


def since(now: Totals, before: Totals) -> Totals:
    """What happened in between."""
    return Totals(
        requests=now.requests - before.requests,
        refused=now.refused - before.refused,
        failed=now.failed - before.failed,
        prompt_tokens=now.prompt_tokens - before.prompt_tokens,
        predicted_tokens=now.predicted_tokens - before.predicted_tokens,
        tiers={tier: n - before.tiers.get(tier, 0) for tier, n in now.tiers.items()},
        queried_tokens=now.queried_tokens - before.queried_tokens,
        hit_tokens=now.hit_tokens - before.hit_tokens,
        shares={a: _more(share, before.shares.get(a)) for a, share in now.shares.items()},
    )


def _more(now: Share, before: Share | None) -> Share:
    # An endpoint that left and came back began anew.
    if before is None or before.requests > now.requests:
        return now
    return Share(
        now.requests - before.requests,
        now.prompt_tokens - before.prompt_tokens,
        now.predicted_tokens - before.predicted_tokens,
        now.queried_tokens - before.queried_tokens,
        now.hit_tokens - before.hit_tokens,
    )


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which that share of them lies; None of none."""
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
