"""Fills in the record of a request: what it asked for, and why it goes where it goes.

Runs before the request is answered, so it keeps what there is and computes nothing that can wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from indexer.prefix_index import Lookup
from router.errors import RouterError
from router.extproc import headers as names
from router.pool.endpoint import Endpoint
from router.producers.accounts import fairness_id
from router.producers.facts import (
    Facts,
    HeldBack,
    KeptOut,
    PrefixMatch,
    Tokens,
    Untokenized,
)
from router.request.types import Request
from router.scheduling.profiles.stages import FALLBACK
from router.scheduling.types import Decision, Dropped, Outcome
from router.telemetry.decisions import MAX_ADDRESSES, Record, StageRecord

MAX_NAME = 256
"""Characters of a client's names that are kept in records, logs and metrics."""

MAX_TEXT = 1000
"""Characters of a refusal that a record keeps."""

SUBSET = "subset-hint"
SERVED_MODELS = "served-models"
"""What records call the step that leaves out endpoints which do not serve the model."""

_WHY: Mapping[str, str] = {
    SUBSET: "the data plane does not allow it",
    SERVED_MODELS: "it does not list the model",
}


def trace(record: Record, headers: Mapping[str, str]) -> None:
    """Which trace it belongs to."""
    record.traceparent = headers.get(names.TRACEPARENT, "")[:MAX_NAME]
    record.tracestate = headers.get(names.TRACESTATE, "")[:MAX_TEXT]


def arrived(request_id: str, at: float, headers: Mapping[str, str], body: bytes | None) -> Record:
    """What is known of a request before it is read; its kind is not."""
    record = Record(request_id=request_id[:MAX_NAME], at=at, kind="", model="")
    record.request_bytes = None if body is None else len(body)
    trace(record, headers)
    return record


def request(record: Record, asked: Request) -> None:
    """What it asked for."""
    record.kind = asked.api
    record.model = asked.asked_model[:MAX_NAME]
    record.target_model = asked.model[:MAX_NAME]
    record.rewritten_by = asked.rewritten_by
    record.prompts = asked.prompts
    record.priority = asked.priority


def account(record: Record, asked: Request, facts: Facts) -> None:
    """On whose account it goes."""
    record.fairness_id = fairness_id(asked, facts)


def refusal(record: Record, error: RouterError) -> None:
    """Why it goes nowhere, and who was dropped on the way to that."""
    record.refused, record.status = str(error)[:MAX_TEXT], error.status
    record.dropped = [_named(step) for step in error.dropped if isinstance(step, Dropped)]


def decision(record: Record, facts: Facts, made: Decision) -> None:
    """Where it goes, and what was known."""
    primary = _bounded(made.primary)
    record.endpoint = made.endpoint.address
    record.profile, record.stages = primary.profile, made.kind
    record.totals, record.scores, record.weights = primary.totals, primary.scores, primary.weights
    record.dropped = (*map(_named, made.left_out), *primary.dropped)
    shown = len(made.primary.totals)
    record.candidates = shown + sum(len(step.addresses) for step in made.primary.dropped)
    record.fallbacks = tuple(_fallbacks(facts, made))
    record.prefill = _stage(made.prefill)
    record.encode = _stage(made.encode)
    _prefix(record, facts, made)


def short(record: Record) -> str:
    """The decision in one line of ASCII, for a response header."""
    parts = _refused(record) if record.refused is not None else _picked(record)
    parts |= {"took-ms": f"{record.took_ms:.2f}", "id": record.request_id}
    text = "; ".join(f"{name}={value}" for name, value in parts.items() if value is not None)
    return text.encode("ascii", "replace").decode()


def _refused(record: Record) -> dict[str, object]:
    dropped = ",".join(f"{step.filter}:{len(step.addresses)}" for step in record.dropped)
    return {"refused": record.status, "dropped": dropped or None}


def _picked(record: Record) -> dict[str, object]:
    endpoint = record.endpoint or ""
    held = record.prefix.get(endpoint)
    return {
        "endpoint": endpoint,
        "prefill": record.prefill.endpoints[0] if record.prefill else None,
        "profile": record.profile,
        "candidates": f"{len(record.totals)}/{record.candidates}",
        "total": f"{record.totals.get(endpoint, 0.0):.3f}",
        "blocks": f"{held.speculative if held else 0}/{record.total_blocks}",
        "cached": record.predicted_cached_tokens,
        "tokens": record.prompt_tokens,
    }


def dropped(
    made: Decision, step: str, before: Sequence[Endpoint], after: Sequence[Endpoint]
) -> Decision:
    """The decision, which names the endpoints that were no candidates because of that step."""
    if len(before) == len(after):
        return made
    left = {endpoint.address for endpoint in after}
    others = tuple(e.address for e in before if e.address not in left)
    gone = Dropped(step, others, _WHY[step])
    return msgspec.structs.replace(made, left_out=(gone, *made.left_out))


def _prefix(record: Record, facts: Facts, made: Decision) -> None:
    """What is held of the prompt, and by whom."""
    tokens, match = facts.get(Tokens), facts.get(PrefixMatch)
    if tokens is None:
        return
    record.prompt_tokens = None if tokens.partial else tokens.count
    if match is None:
        return
    record.total_blocks, record.block_size = match.total_blocks, match.block_size
    record.prefix, record.prefix_producer = match.held, facts.producer_of(PrefixMatch)
    if len(match.held) > MAX_ADDRESSES:
        record.prefix = {a: held for a in _named_in(record) if (held := match.held.get(a))}
    # A cache that counts is that of the endpoint that computes the prompt.
    computing = made.endpoint if made.prefill is None else made.prefill.endpoint
    record.predicted_cached_tokens = _reusable(computing, tokens, match)
    lookup = facts.get(Lookup)
    held = match.held.get(computing.address)
    if lookup is not None and held is not None and held.speculative:
        record.prefix_id = f"{lookup.readings[0].hashes[held.speculative - 1]:016x}"


def _reusable(endpoint: Endpoint, tokens: Tokens, match: PrefixMatch) -> int:
    """Tokens of the prompt that an endpoint need not compute."""
    held = match.held.get(endpoint.address)
    blocks = held.speculative if held else 0
    # An engine computes at least the last token again.
    last = tokens.count if tokens.partial else max(tokens.count - 1, 0)
    return min(blocks, last // match.block_size) * match.block_size


def _stage(outcome: Outcome | None) -> StageRecord | None:
    if outcome is None:
        return None
    bounded = _bounded(outcome)
    return StageRecord(
        profile=outcome.profile,
        endpoints=tuple(target.address for target in outcome.targets),
        totals=bounded.totals,
        scores=bounded.scores,
        weights=bounded.weights,
        dropped=bounded.dropped,
    )


def _fallbacks(facts: Facts, made: Decision) -> Iterator[str]:
    if made.kind == FALLBACK:
        yield f"a stage had nobody: profile {made.primary.profile} answers alone"
    untokenized = facts.get(Untokenized)
    if untokenized is not None and facts.get(Tokens) is None:
        yield f"no token ids: {untokenized.reason}"
    endpoint, out, new = made.endpoint, facts.get(KeptOut), facts.get(HeldBack)
    if out is not None and endpoint.address in out.addresses:
        yield "its last answers failed, and nobody else was left"
    if new is not None and endpoint.address in new.addresses:
        yield "it just came, and nobody else was left"
    if endpoint.metrics is None:
        yield "its load is not known: it was never scraped"
    elif not endpoint.metrics.tell(facts.now):
        yield "its load is not known: its last scrape is old"


def _named_in(record: Record) -> Mapping[str, None]:
    """Addresses that a record tells of as candidates or picks, of every stage."""
    named = dict.fromkeys((record.endpoint or "", *record.totals))
    for stage in (record.prefill, record.encode):
        if stage is not None:
            named |= dict.fromkeys((*stage.endpoints, *stage.totals))
    return named


def _bounded(outcome: Outcome) -> Outcome:
    """An outcome of a large pool names only the best and the picks."""
    dropped = outcome.dropped
    if not dropped and len(outcome.totals) <= MAX_ADDRESSES:
        return outcome
    if any(len(step.addresses) > MAX_ADDRESSES for step in dropped):
        dropped = tuple(map(_named, dropped))
    if len(outcome.totals) <= MAX_ADDRESSES:
        if dropped is outcome.dropped:
            return outcome
        return msgspec.structs.replace(outcome, dropped=dropped)
    totals = outcome.totals
    kept = heapq.nlargest(MAX_ADDRESSES, totals, key=totals.__getitem__)
    kept = list(dict.fromkeys([*(target.address for target in outcome.targets), *kept]))
    return msgspec.structs.replace(
        outcome,
        totals={address: totals[address] for address in kept},
        scores={name: {a: by[a] for a in kept} for name, by in outcome.scores.items()},
        dropped=dropped,
    )


def _named(step: Dropped) -> Dropped:
    """A step that names no more endpoints than a record should."""
    if len(step.addresses) <= MAX_ADDRESSES:
        return step
    why = f"{step.why} (and {len(step.addresses) - MAX_ADDRESSES} more)"
    return Dropped(step.filter, step.addresses[:MAX_ADDRESSES], why)
