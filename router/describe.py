"""Fills in the record of a request: what it asked for, and why it goes where it goes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.extproc import headers as names
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, FairnessId, PrefixMatch, Tokens
from router.request.types import Request
from router.scheduling.types import Decision, Dropped
from router.telemetry.decisions import Record

MAX_NAME = 256
"""Characters of a client's names that are kept in records, logs and metrics."""

DEFAULT_FLOW = "default-flow"
"""On whose account requests go that do not say it; llm-d's word."""


DEFAULT_FLOW = "default-flow"
"""On whose account requests go that do not say it; llm-d's word."""


def request(record: Record, asked: Request) -> None:
    """What it asked for."""
    record.kind = asked.api
    record.model = asked.asked_model[:MAX_NAME]
    record.target_model = asked.model[:MAX_NAME]
    record.rewritten_by = asked.rewritten_by


def account(record: Record, asked: Request, facts: Facts) -> None:
    """On whose account it goes: what it says itself counts first."""
    stated = facts.get(FairnessId)
    given = names.text_of(asked.headers, names.FAIRNESS_IDS)
    record.fairness_id = (given or (stated.value if stated else DEFAULT_FLOW))[:MAX_NAME]


def decision(record: Record, facts: Facts, made: Decision) -> None:
    """Where it goes, and what was known."""
    record.endpoint = made.endpoint.address
    record.stages = made.kind
    # A cache that counts is that of the endpoint that computes the prompt.
    computing = made.endpoint
    if made.prefill is not None:
        computing = made.prefill.endpoint
        record.prefill = computing.address
    if made.encode is not None:
        record.encode = tuple(target.address for target in made.encode.targets)
    primary = made.primary
    record.totals, record.scores = primary.totals, primary.scores
    record.dropped = (*made.left_out, *primary.dropped)
    tokens, match = facts.get(Tokens), facts.get(PrefixMatch)
    if tokens is None:
        return
    record.prompt_tokens = None if tokens.partial else tokens.count
    if match is None:
        return
    record.prefix = match.held
    held = match.held.get(computing.address)
    blocks = held.speculative if held else 0
    # An engine computes at least the last token again.
    last = tokens.count if tokens.partial else max(tokens.count - 1, 0)
    reusable = min(blocks, last // match.block_size)
    record.predicted_cached_tokens = reusable * match.block_size


def dropped(
    made: Decision, reason: str, before: Sequence[Endpoint], after: Sequence[Endpoint]
) -> Decision:
    """The decision, which names the endpoints that were no candidates for `reason`."""
    if len(before) == len(after):
        return made
    left = {endpoint.address for endpoint in after}
    others = tuple(e.address for e in before if e.address not in left)
    return msgspec.structs.replace(made, left_out=(Dropped(reason, others), *made.left_out))
