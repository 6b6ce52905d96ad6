"""Data-parallel ranks behind one port: the engine is told which of them holds the prompt."""

from __future__ import annotations

from router.extproc import headers as names
from router.pool.endpoint import Endpoint
from router.producers.facts import PrefixMatch
from router.request.types import Request
from router.scheduling.types import Decision

LEAST_SHARE = 0.5
"""Of the prompt's blocks, that a rank must hold to be named: what all prompts have in common would
else send all of them to one rank, which the engine's own balance is better at."""


UNKNOWN = -1
"""Rank of a guess about an engine that chooses among its ranks by itself."""


def guessed(request: Request, decision: Decision) -> int:
    """The rank that will hold the prompt where it is answered."""
    endpoint = decision.endpoint
    if len(endpoint.kv_events) < 2:
        return endpoint.rank
    ours = decision.headers.get(names.DATA_PARALLEL_RANK)
    named = ours or request.headers.get(names.DATA_PARALLEL_RANK, "")
    return int(named) if named.isascii() and named.isdigit() else UNKNOWN


def wanted(request: Request, match: PrefixMatch, endpoint: Endpoint) -> int | None:
    """The rank that the request should go to; None leaves it to the client or the engine."""
    if len(endpoint.kv_events) < 2 or names.DATA_PARALLEL_RANK in request.headers:
        return None
    held = match.held.get(endpoint.address)
    if held is None or held.speculative < LEAST_SHARE * match.total_blocks:
        return None
    rank = match.ranks.get(endpoint.address, 0)
    return None if rank == UNKNOWN else rank
