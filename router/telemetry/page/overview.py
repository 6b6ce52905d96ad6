"""What the page shows, as data: endpoints, hit rates, latency, prefixes, what is degraded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import msgspec

from indexer.block import Trust
from indexer.feed import Feed
from router.pool.endpoint import Endpoint
from router.pool.outliers import Outliers
from router.pool.pool import Pool
from router.producers.inflight import InFlightLoad
from router.producers.prefix import PrecisePrefix
from router.telemetry.decisions import Decisions
from router.telemetry.page.prefixes import Hot, hottest
from router.telemetry.page.tally import Sample, Share, Tally, Totals, quantile, since

FRESH_S = 1.0
"""An overview this young is handed out again: it costs the same for one viewer or many."""

LATENCY_OF = 500
"""Decisions whose duration is shown."""

_WORST_FIRST = (Trust.STALE, Trust.PARTIAL, Trust.EXACT)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint.

    Attributes:
        kept_out: Its last answers failed.
        asleep: Its cache is gone.
        waiting: As scraped; None where that is not known, as `running` and `kv_usage`.
        in_flight: Requests of this router.
        trust: Of its event streams; None where there is none.
        lag_s: From sent to received, of its latest events.
        blocks: That it holds.
        share: Of the requests of the last minutes that it had a part in, 0 to 1.
        recent: What it was given in the last minutes.
    """

    name: str
    address: str
    role: str | None
    alive: bool
    kept_out: bool
    asleep: bool
    waiting: int | None
    running: int | None
    kv_usage: float | None
    in_flight: int
    trust: Trust | None
    lag_s: float | None
    blocks: int
    share: float
    recent: Share


class Latency(msgspec.Struct, frozen=True):
    """Milliseconds from the last byte of a request to the pick; None where nothing was decided."""

    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    decisions: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but single decisions.

    Attributes:
        at: Unix time.
        up_s: Since the start.
        window_s: How long the last minutes are.
        degraded: What works less well than it should.
        total: Since the start; its shares are left out.
        recent: In the last minutes, likewise.
        point: The latest of the curves.
    """

    at: float
    up_s: float
    window_s: float
    ready: bool
    degraded: Sequence[str]
    endpoints: Sequence[Shown]
    total: Totals
    recent: Totals
    latency: Latency
    prefixes: Sequence[Hot]
    point: Point | None


class Point(msgspec.Struct, frozen=True):
    """What happened between two samples.

    Attributes:
        failed: Requests that were refused or failed.
        checked: What was predicted, and what engines found.
    """

    at: float
    seconds: float
    requests: int
    failed: int
    checked: Share
    p50_ms: float | None
    p95_ms: float | None


class Overviews:
    """Makes overviews, at most one a second."""

    def __init__(
        self,
        *,
        pool: Pool,
        outliers: Sequence[Outliers],
        prefixes: Sequence[PrecisePrefix],
        loads: Sequence[InFlightLoad],
        tally: Tally,
        decisions: Decisions,
        ready: Callable[[], bool],
        degraded: Callable[[], Sequence[str]],
    ) -> None:
        """`prefixes` and `loads` may change."""
        self._pool = pool
        self._outliers = outliers
        self._prefixes = prefixes
        self._loads = loads
        self._tally = tally
        self._decisions = decisions
        self._ready = ready
        self._degraded = degraded
        self._started_at = tally.samples[0].at
        self._latest: Overview | None = None

    def points(self) -> list[Point]:
        """The curves up to now."""
        return [_point(a, b) for a, b in pairwise(self._tally.samples)]

    def at(self, now: float) -> Overview:
        """One that is at most a second old. `now`: Unix time."""
        latest = self._latest
        if latest is None or not 0 <= now - latest.at < FRESH_S:
            latest = self._latest = self._made(now)
        return latest

    def _made(self, now: float) -> Overview:
        samples, total = self._tally.samples, self._tally.totals
        recent = since(total, samples[0].totals)
        return Overview(
            at=now,
            up_s=now - self._started_at,
            window_s=now - samples[0].at,
            ready=self._ready(),
            degraded=self._degraded(),
            endpoints=self._endpoints(recent),
            total=msgspec.structs.replace(total, shares={}),
            recent=msgspec.structs.replace(recent, shares={}),
            latency=self._latency(),
            prefixes=hottest(self._decisions.all()),
            point=_point(samples[-2], samples[-1]) if len(samples) > 1 else None,
        )

    def _latency(self) -> Latency:
        last = self._decisions.last(LATENCY_OF)
        took = sorted(r.took_ms for r in last if r.endpoint is not None)
        return Latency(quantile(took, 0.5), quantile(took, 0.95), quantile(took, 0.99), len(took))

    def _endpoints(self, recent: Totals) -> list[Shown]:
        endpoints = self._pool.snapshot()
        out = {e.address for outliers in self._outliers for e in outliers.out(endpoints)}
        in_flight = self._loads[0].requests if self._loads else {}
        streams = _streams(feed for prefix in self._prefixes for feed in prefix.index.feeds())
        blocks = _blocks(self._prefixes)
        return [
            _shown(
                endpoint,
                kept_out=endpoint.address in out,
                in_flight=in_flight.get(endpoint.address, 0),
                stream=streams.get(endpoint.address, (None, None)),
                blocks=blocks[endpoint.address],
                recent=recent.shares.get(endpoint.address, Share()),
                whole=recent.requests - recent.refused,
            )
            for endpoint in endpoints
        ]


def _shown(
    endpoint: Endpoint,
    *,
    kept_out: bool,
    in_flight: int,
    stream: tuple[Trust | None, float | None],
    blocks: int,
    recent: Share,
    whole: int,
) -> Shown:
    metrics = endpoint.metrics
    return Shown(
        name=endpoint.name,
        address=endpoint.address,
        role=endpoint.role,
        alive=endpoint.alive,
        kept_out=kept_out,
        asleep=metrics.asleep if metrics else False,
        waiting=metrics.waiting if metrics else None,
        running=metrics.running if metrics else None,
        kv_usage=metrics.kv_usage if metrics else None,
        in_flight=in_flight,
        trust=stream[0],
        lag_s=stream[1],
        blocks=blocks,
        share=recent.requests / whole if whole else 0.0,
        recent=recent,
    )


def _blocks(prefixes: Iterable[PrecisePrefix]) -> Counter[str]:
    """Endpoint address -> blocks that it holds, over its ranks and tiers."""
    held: Counter[str] = Counter()
    for prefix in prefixes:
        for holder in prefix.index.holders():
            held[holder.address] += sum(prefix.index.blocks.blocks(holder).values())
    return held


def _streams(feeds: Iterable[Feed]) -> dict[str, tuple[Trust | None, float | None]]:
    """Endpoint address -> the least trust and the longest lag of its streams."""
    heard: dict[str, list[Feed]] = {}
    silent: dict[str, list[Feed]] = {}
    for feed in feeds:
        # An engine either listens or connects, and may be expected both ways.
        known = silent if feed.order.next is None else heard
        for address in {holder.address for holder in (feed.source.holder, *feed.holders)}:
            known.setdefault(address, []).append(feed)
    return {
        address: (
            min((feed.trust for feed in streams), key=_WORST_FIRST.index),
            max((lag for feed in streams if (lag := feed.stats.lag_s) is not None), default=None),
        )
        for address, streams in (silent | heard).items()
    }


def _point(before: Sample, after: Sample) -> Point:
    now, then = after.totals, before.totals
    return Point(
        at=after.at,
        seconds=after.at - before.at,
        requests=now.requests - then.requests,
        failed=now.failed + now.refused - then.failed - then.refused,
        checked=now.checked - then.checked,
        p50_ms=after.p50_ms,
        p95_ms=after.p95_ms,
    )
