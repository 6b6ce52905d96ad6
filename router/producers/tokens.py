"""token-producer: the prompt's token ids, from one of several backends.

While a backend is away, slow or does not know the model, requests go on without tokens: that is
counted by reason and costs at most the configured budget. Budgets used up in a row open a breaker,
so that not every request pays for a backend that hangs.
"""

from __future__ import annotations

import bisect
import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from router.pool.endpoint import Endpoint
from router.producers.breaker import Breaker
from router.producers.facts import Facts, Tokens, Untokenized
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision


class Missing(enum.StrEnum):
    """Why a request has no token ids."""

    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    BREAKER_OPEN = "breaker_open"
    UNKNOWN_MODEL = "unknown_model"
    NOT_SERVED = "not_served"
    NOT_READY = "not_ready"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    EXPIRED = "expired"
    BUSY = "busy"
    FAILED = "failed"


_BUDGET_USED_UP = frozenset({Missing.TIMEOUT, Missing.EXPIRED})
"""What cost a request all of its time: the backend did not answer, or said so at the end of it."""


TIME_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Upper ends of the buckets of a histogram of times."""


class TokenStats:
    """What became of the requests that were to be tokenized.

    Attributes:
        tokenized: Requests that got their ids.
        partial: Those among them of whose prompt only the beginning is known.
        missing: Reason -> requests that did not.
        connected: The backend is reached.
        connections: Connections opened since the start.
        not_ready: Models whose tokenizer cannot be used yet, and why.
        took_s: Time that requests waited for the backend, added up, whatever they got.
        took_buckets: How many waited up to each of `TIME_BUCKETS_S`, and above, each counted once.
        hanging: It used up its budget several times in a row and is left alone for a while.
    """

    def __init__(self) -> None:
        self.tokenized = 0
        self.partial = 0
        self.missing: Counter[Missing] = Counter()
        self.connected = False
        self.connections = 0
        self.took_s = 0.0
        self.took_buckets = [0] * (len(TIME_BUCKETS_S) + 1)
        self.hanging = False
        self.not_ready: Sequence[str] = ()

    def took(self, seconds: float) -> None:
        """A request waited so long."""
        self.took_s += seconds
        self.took_buckets[bisect.bisect_left(TIME_BUCKETS_S, seconds)] += 1


class Backend(Protocol):
    """Where token ids come from."""

    stats: TokenStats

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """The first prompt's tokens, or why there are none; within the backend's budget."""
        ...

    async def run(self) -> None:
        """Keep what it needs open, until cancelled."""
        ...


class TokenProducer:
    """States Tokens, or Untokenized where it wanted to and could not."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        model_of: Callable[[str], str],
        clock: Callable[[], float],
        model_name: str = "",
    ) -> None:
        """`model_of` maps a requested model to the base model whose tokenizer applies.

        `model_name`, where given, is used for every request. `clock` gives monotonic seconds.
        """
        self.name = name
        self._backend = backend
        self._model_of = model_of
        self._model_name = model_name
        self._clock = clock
        self._breaker = Breaker(clock)

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        if not request.prompt_known:
            return
        if request.token_ids is not None:
            facts.put(Tokens(request.token_ids), self.name)
            return
        stats = self._backend.stats
        tokens = await self._ask(request)
        if isinstance(tokens, Missing):
            if tokens is Missing.UNKNOWN_MODEL and _nobody_serves(request.model, endpoints):
                tokens = Missing.NOT_SERVED
            stats.missing[tokens] += 1
            facts.put(Untokenized(str(tokens)), self.name)
            return
        stats.tokenized += 1
        stats.partial += tokens.partial
        facts.put(tokens, self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        return None

    async def _ask(self, request: Request) -> Tokens | Missing:
        if not self._breaker.allows():
            return Missing.BREAKER_OPEN
        model, began = self._model_name or self._model_of(request.model), self._clock()
        tokens = await self._backend.tokenize(model, request)
        self._backend.stats.took(self._clock() - began)
        self._breaker.record(failed=isinstance(tokens, Missing) and tokens in _BUDGET_USED_UP)
        self._backend.stats.hanging = self._breaker.is_open
        return tokens


def _nobody_serves(model: str, endpoints: Sequence[Endpoint]) -> bool:
    """A client made the name up: all endpoints have told what they serve, and it is not that."""
    told = [endpoint.models for endpoint in endpoints]
    return bool(model and told) and not any(m is None or model in m.listed for m in told)
