"""token-producer's backend without a tokenizer: it is always there and takes no time."""

from __future__ import annotations

import msgspec

from router.producers.estimate import estimate
from router.producers.estimate_parameters import EstimateParameters
from router.producers.facts import Tokens
from router.producers.tokens import Missing, TokenStats
from router.request.types import Request


class Estimator:
    """Estimates; keeps nothing."""

    def __init__(self, parameters: EstimateParameters) -> None:
        self._parameters = parameters
        self.stats = TokenStats()
        self.stats.connected = True

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """Ids that stand for the first prompt's bytes."""
        try:
            return estimate(request, self._parameters)
        except msgspec.DecodeError:
            return Missing.REFUSED

    async def run(self) -> None:
        """Nothing is kept open."""
