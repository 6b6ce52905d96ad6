"""burst-prefix-cache-producer: requests with one prompt that come at once go to one endpoint. IO.

The first request of a burst opens a window; when it closes, all requests in it are assigned
together. A prefix that nobody has computed yet is in no cache, so it is the assignment that scores:
a full match at the endpoint, nothing elsewhere. As blocks that somebody holds it does not count.

Scraped figures are up to a second old, and windows are shorter: what was sent since counts, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from router.pool.endpoint import Endpoint
from router.producers.burst_assign import Names, Replica, assign
from router.producers.burst_parameters import BurstPrefixParameters
from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from router.producers.inflight import InFlightLoad
from router.producers.prefix_chain import chain
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision


class BurstPrefix:
    """States PrefixMatch, after at most the window."""

    def __init__(self, name: str, parameters: BurstPrefixParameters) -> None:
        self.name = name
        self._parameters = parameters
        self._window: _Window | None = None
        self._sent = InFlightLoad(name)

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        tokens = facts.get(Tokens)
        if tokens is None:
            return
        size = self._parameters.block_size_tokens
        most = self._parameters.max_blocks
        names = chain(tokens, size, request.model, request.cache_salt, most)
        address = await self._assigned(names, endpoints) if names else None
        blocks = len(names)
        full = {} if address is None else {address: HeldPrefix(0, {}, 0, float(blocks))}
        facts.put(PrefixMatch(blocks, size, full), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease:
        return self._sent.decided(request, Facts(), decision)

    async def _assigned(self, names: Names, endpoints: Sequence[Endpoint]) -> str | None:
        window = self._window
        if window is None:
            window = self._window = _Window(self._parameters)
            loop = asyncio.get_running_loop()
            loop.call_later(self._parameters.window_duration_ms / 1e3, self._close, window)
        answer = window.add(names, endpoints)
        if window.full:
            self._close(window)
        return await answer

    def _close(self, window: _Window) -> None:
        if self._window is window:
            self._window = None
            window.close(self._sent.requests)


class _Window:
    """The requests that wait for each other."""

    def __init__(self, parameters: BurstPrefixParameters) -> None:
        self._parameters = parameters
        self._prompts: list[Names] = []
        self._answers: list[asyncio.Future[str | None]] = []
        self._endpoints: Sequence[Endpoint] = ()

    @property
    def full(self) -> bool:
        """No more requests are waited for."""
        return len(self._prompts) == self._parameters.max_batch_size

    def add(self, names: Names, endpoints: Sequence[Endpoint]) -> asyncio.Future[str | None]:
        """The address that this request will be assigned."""
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._prompts.append(names)
        self._answers.append(answer)
        self._endpoints = endpoints
        return answer

    def close(self, sent: Mapping[str, int]) -> None:
        """Assign everybody. Who has gone meanwhile is not told. `sent`: requests in flight."""
        replicas = _replicas(self._endpoints, sent)
        addresses = assign(self._prompts, replicas, self._parameters)
        for answer, address in zip(self._answers, addresses, strict=True):
            if not answer.done():
                answer.set_result(address)


def _replicas(endpoints: Sequence[Endpoint], sent: Mapping[str, int]) -> list[Replica]:
    """An endpoint that was never scraped counts as the mean of the others, not as idle."""
    running = [e.metrics.running if e.metrics is not None else None for e in endpoints]
    known = [n for n in running if n is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [
        Replica(e.address, max(mean if n is None else n, sent.get(e.address, 0)))
        for e, n in zip(endpoints, running, strict=True)
    ]
