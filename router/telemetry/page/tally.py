"""Counts what the page shows of the requests: in all, by endpoint, and over the last minutes.

Totals only grow. Every few seconds a copy of them is kept; the difference of two copies is what
happened between them. A request costs a few additions, whether or not anybody looks.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from router.errors import RouterError
from router.pool.endpoint import Endpoint
from router.telemetry.comparison import Comparison, Predicted
from router.telemetry.decisions import Record

INTERVAL_S = 2.0
"""Between two copies."""

KEPT = 150
"""Copies: five minutes."""

SAMPLED = 512
"""Decisions per interval whose duration is kept."""

MAX_TIERS = 12
OTHER = "other"
"""Engines name their tiers; further ones are called other."""

GUESS = "guess"
"""What blocks are counted as that only a guess says are held."""


class Share(msgspec.Struct, frozen=True):
    """What one endpoint was given. All but `requests` is known only as far as it was looked at.

    Attributes:
        requests: Requests it was picked for, whatever its part in them.
        prompt_tokens: Prompts' tokens of those that were answered, where they are known.
        predicted_tokens: Those of them it was expected to find in its GPU memory.
        queried_tokens: Prompt tokens that it looked up in its prefix cache, as it says.
        hit_tokens: Those it found.
    """

    requests: int = 0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    queried_tokens: float = 0.0
    hit_tokens: float = 0.0

    def picked(self) -> Share:
        """One request more: for each of them, so without the detour of a sum."""
        return Share(
            self.requests + 1,
            self.prompt_tokens,
            self.predicted_tokens,
            self.queried_tokens,
            self.hit_tokens,
        )

    def __add__(self, other: Share) -> Share:
        return Share(*map(operator.add, _fields(self), _fields(other)))

    def __sub__(self, other: Share) -> Share:
        return Share(*map(operator.sub, _fields(self), _fields(other)))


_NOTHING = Share()


class Totals(msgspec.Struct):
    """Since the start.

    Attributes:
        requests: Routed or refused.
        refused: Refused by the router.
        failed: Answered with an error, or not at all.
        prompt_tokens: Of requests whose tokens are known.
        predicted_tokens: Those of them that were expected to be reused.
        tiers: Those by the tier that holds them.
        checked: Of all endpoints that count hits: what was predicted, and what they found.
        shares: Endpoint address -> what it was given.
    """

    requests: int = 0
    refused: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    predicted_tokens: int = 0
    tiers: dict[str, int] = {}
    checked: Share = _NOTHING
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

    def __init__(self, started_at: float, comparison: Comparison) -> None:
        """`started_at`: Unix time. `comparison`: what was predicted, by endpoint."""
        self.totals = Totals()
        self._comparison = comparison
        self._samples: deque[Sample] = deque([Sample(started_at, Totals())], maxlen=KEPT)
        self._took_ms: list[float] = []
        self._engines: dict[str, _Looked] = {}

    @property
    def samples(self) -> Sequence[Sample]:
        """The copies kept, oldest first; at least one."""
        return self._samples

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        totals = self.totals
        totals.requests += 1
        self._picked(record.endpoint or "")
        for stage in (record.prefill, record.encode):
            for endpoint in stage.endpoints if stage is not None else ():
                self._picked(endpoint)
        if len(self._took_ms) < SAMPLED:
            self._took_ms.append(record.took_ms)
        if record.prompt_tokens is not None:
            totals.prompt_tokens += record.prompt_tokens
            predicted = record.predicted_cached_tokens or 0
            totals.predicted_tokens += predicted
            self._by_tier(record, predicted)

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
        self._begin(endpoints)
        if now - self._samples[-1].at < INTERVAL_S:
            return
        self._read_engines(endpoints)
        took = sorted(self._took_ms)
        self._took_ms = []
        copy = self.totals.copy()
        self._samples.append(Sample(now, copy, quantile(took, 0.5), quantile(took, 0.95)))

    def _picked(self, address: str) -> None:
        shares = self.totals.shares
        shares[address] = shares.get(address, _NOTHING).picked()

    def _by_tier(self, record: Record, predicted: int) -> None:
        """Count reusable tokens by tier; what no event has confirmed is a guess."""
        computing = record.prefill.endpoints[0] if record.prefill else record.endpoint or ""
        held, left, tiers = record.prefix.get(computing), predicted, self.totals.tiers
        for tier, blocks in held.tiers.items() if held else ():
            tokens = min(blocks * record.block_size, left)
            name = tier if tier in tiers or len(tiers) < MAX_TIERS else OTHER
            tiers[name] = tiers.get(name, 0) + tokens
            left -= tokens
        if left:
            tiers[GUESS] = tiers.get(GUESS, 0) + left

    def _begin(self, endpoints: Sequence[Endpoint]) -> None:
        """Note where an endpoint's counters stand as soon as they are known."""
        for endpoint in endpoints:
            if endpoint.address not in self._engines:
                looked = self._looked(endpoint)
                if looked is not None:
                    self._engines[endpoint.address] = looked

    def _read_engines(self, endpoints: Sequence[Endpoint]) -> None:
        """Add what was predicted and found since the last look; forget endpoints that are gone."""
        known, self._engines = self._engines, {}
        totals = self.totals
        for endpoint in endpoints:
            now = self._looked(endpoint)
            if now is None:
                continue
            address = endpoint.address
            self._engines[address] = now
            more = _grown(now, known.get(address, now))
            totals.checked += more
            totals.shares[address] = totals.shares.get(address, _NOTHING) + more
        here = {endpoint.address for endpoint in endpoints}
        for address in [a for a in totals.shares if a not in here]:
            del totals.shares[address]

    def _looked(self, endpoint: Endpoint) -> _Looked | None:
        """None for one that counts no hits."""
        metrics = endpoint.metrics
        if metrics is None or metrics.prefix_queries is None or metrics.prefix_hits is None:
            return None
        told = self._comparison.predicted.get(endpoint.address, Predicted())
        return _Looked(
            metrics.process_start,
            Share(
                prompt_tokens=told.prompt_tokens,
                predicted_tokens=told.cached_tokens,
                queried_tokens=metrics.prefix_queries,
                hit_tokens=metrics.prefix_hits,
            ),
        )


class _Looked(msgspec.Struct, frozen=True):
    """The counters of one endpoint at one moment, and which process they are of."""

    process_start: float | None
    counted: Share


def _grown(now: _Looked, before: _Looked) -> Share:
    if now.process_start != before.process_start:
        # What it counted before a restart is in the totals already.
        found = (before.counted.prompt_tokens, before.counted.predicted_tokens)
        return now.counted - Share(0, *found)
    return Share(*(max(n, 0) for n in _fields(now.counted - before.counted)))


def _fields(share: Share) -> tuple[Any, ...]:
    return msgspec.structs.astuple(share)


def since(now: Totals, before: Totals) -> Totals:
    """What happened in between."""
    return Totals(
        requests=now.requests - before.requests,
        refused=now.refused - before.refused,
        failed=now.failed - before.failed,
        prompt_tokens=now.prompt_tokens - before.prompt_tokens,
        predicted_tokens=now.predicted_tokens - before.predicted_tokens,
        tiers={tier: n - before.tiers.get(tier, 0) for tier, n in now.tiers.items()},
        checked=now.checked - before.checked,
        shares={a: _more(share, before.shares.get(a, _NOTHING)) for a, share in now.shares.items()},
    )


def _more(now: Share, before: Share) -> Share:
    # An endpoint that left and came back began anew.
    return now if before.requests > now.requests else now - before


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which that share of them lies; None of none."""
    if not ordered:
        return None
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
