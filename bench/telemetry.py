"""Telemetry: what records, metrics and their gathering add to a decision. IO."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import count, islice
from unittest.mock import patch

import msgspec

from bench import prompts
from bench.decision import endpoint, prefix
from bench.envoy_requests import CONNECTIONS, completion
from bench.figures import Figure
from bench.load import Load
from bench.measure import least, spend
from bench.report import report
from bench.stack import stack
from router import describe
from router.config.builtin import BUILTIN
from router.config.load import load
from router.director import Director
from router.errors import RouterError
from router.lineup import Lineup
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.producers.facts import Facts, InFlight, PrefixMatch, Tokens
from router.request.types import Request
from router.scheduling.timed import timed
from router.scheduling.types import Decision
from router.surroundings import Observer
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import Decisions, Record
from router.telemetry.journal import Journal
from router.telemetry.metrics import Metrics
from router.telemetry.page.tally import Tally

ENGINES = 4
BLOCKS = 12
"""A prompt of 200 tokens."""
REQUESTS = 300
RUNS = 31
BUDGET_PERCENT = 5.0

BODY = b'{"model": "bench", "prompt": "hi"}'


def figures(engines: int = ENGINES, runs: int = RUNS, requests: int = 2000) -> list[Figure]:
    """The time it adds, and its share of all that a short request costs."""
    added_us = _added_us(engines, runs)
    whole_us = _whole_us(engines, requests)
    return [
        Figure(name="telemetry, per decision", value=added_us, unit="us"),
        Figure(
            name="telemetry, share of a 200-token completion",
            value=100 * added_us / whole_us,
            unit="%",
            budget=BUDGET_PERCENT,
            note=f"of {whole_us:.0f} us of router and sidecar; until the answer to Envoy",
        ),
    ]


def _added_us(engines: int, runs: int) -> float:
    """A decision that is recorded less one of which nothing is kept, in turn, medians."""
    loop = asyncio.new_event_loop()
    metrics = Metrics(lambda _: True)
    known = _director(_journal(metrics), engines)
    known.lineup = msgspec.structs.replace(
        known.lineup,
        profiles=timed(known.lineup.profiles, metrics.timer, time.perf_counter, str),
    )
    silent = _director(_Nobody(), engines)
    differences = []
    try:
        for _ in range(runs + 1):
            with patch.object(describe, "decision", _endpoint_only):
                bare = _cpu_us(loop, silent)
            differences.append(_cpu_us(loop, known) - bare)
    finally:
        loop.close()
    return statistics.median(differences[1:])


def _whole_us(engines: int, requests: int) -> float:
    with stack(engines) as running:
        bodies = map(completion, count())
        runs = [
            spend(
                running,
                Load(
                    host=running.host,
                    port=running.port,
                    path=prompts.COMPLETIONS,
                    bodies=list(islice(bodies, requests)),
                    connections=CONNECTIONS,
                ),
            )
            for _ in range(2)
        ]
    return least(runs).ours * 1e3


def _cpu_us(loop: asyncio.AbstractEventLoop, director: Director) -> float:
    began = time.process_time_ns()
    loop.run_until_complete(_decide(director))
    return (time.process_time_ns() - began) / 1e3 / REQUESTS


async def _decide(director: Director) -> None:
    headers = {":method": "POST", ":path": prompts.COMPLETIONS}
    for number in range(REQUESTS):
        await director.route({**headers, "x-request-id": str(number)}, BODY)


def _journal(metrics: Metrics) -> Journal:
    """As the router has it."""
    comparison = Comparison()
    return Journal(metrics, Decisions(), comparison, Tally(time.time(), comparison))


def _director(observer: Observer, engines: int) -> Director:
    config, rng = load(BUILTIN), random.Random(1)
    endpoints = [endpoint(number, rng) for number in range(engines)]
    producers = [_Known(endpoints, rng)]
    return Director(
        Lineup(profiles=config.profiles, handler=config.handler, producers=producers),
        Pool(endpoints),
        observer,
        rng=rng,
        clock=time.time,
        timer=time.perf_counter,
    )


class _Known:
    """States what the built-in producers do, at no cost."""

    name = "precise-prefix-cache-producer"

    def __init__(self, endpoints: Sequence[Endpoint], rng: random.Random) -> None:
        held = {e.address: prefix(rng.randrange(1, BLOCKS)) for e in endpoints[::2]}
        self._match = PrefixMatch(BLOCKS, 16, held)
        self._load = InFlight({e.address: rng.randrange(1, 40) for e in endpoints})
        self._tokens = Tokens(bytes(4 * 16 * BLOCKS))

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        facts.put(self._tokens, "token-producer")
        facts.put(self._match, self.name)
        facts.put(self._load, "inflight-load-producer")

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        """Nothing is kept."""


class _Nobody:
    """An observer that does nothing."""

    def routed(self, record: Record) -> None: ...

    def refused(self, record: Record, error: RouterError) -> None: ...

    def gap(self, record: Record, seconds: float) -> None: ...

    def ended(self, record: Record) -> None: ...


def _endpoint_only(record: Record, facts: Facts, made: Decision) -> None:
    record.endpoint = made.endpoint.address


if __name__ == "__main__":
    sys.exit(report({"telemetry": figures}))
