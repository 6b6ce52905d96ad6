"""Decisions as text: a list of the last ones, or one with everything that led to it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from router.producers.facts import HeldPrefix
from router.scheduling.types import Dropped
from router.telemetry.decisions import Record, StageRecord
from warmroute.tables import plain, table

NONE = "-"

_LIST_HEAD = (
    "time", "request", "model", "endpoint", "prompt", "cached", "reported", "status", "pick ms",
    "all ms", "",
)  # fmt: skip

MAX_ROWS = 20
"""Candidates in a table; the record itself has more of a large pool."""

_SHOWN = 24
"""Characters of a name in the list."""


def listed(records: Sequence[Record]) -> list[str]:
    """One line a decision, in the order given."""
    return list(table(_LIST_HEAD, [_line(record) for record in records], left=4))


def explained(record: Record) -> Iterator[str]:
    """Where one request went, and why."""
    yield from _summary(record)
    if record.endpoint is None:
        yield from map(_dropped, record.dropped)
        return
    yield ""
    yield f"profile {plain(record.profile)} picks {record.endpoint}"
    yield from _candidates(record.endpoint, record, record.prefix)
    for stage, told in (("prefill", record.prefill), ("encode", record.encode)):
        if told is not None:
            yield ""
            yield f"{stage}: profile {plain(told.profile)} picks {', '.join(told.endpoints)}"
            yield from _candidates(told.endpoints[0], told, record.prefix)


def _line(record: Record) -> tuple[str, ...]:
    note = "refused" if record.refused is not None else "!" * len(record.fallbacks)
    return (
        _time(record.at),
        record.request_id[:36],
        record.model[:_SHOWN] or NONE,
        record.served or record.endpoint or NONE,
        _number(record.prompt_tokens),
        _number(record.predicted_cached_tokens),
        _number(record.reported_cached_tokens),
        _number(record.status),
        f"{record.took_ms:.1f}",
        NONE if record.duration_ms is None else f"{record.duration_ms:.0f}",
        note,
    )


def _summary(record: Record) -> Iterator[str]:
    target = record.target_model
    rewritten = f", sent as {target} by {record.rewritten_by}" if record.rewritten_by else ""
    model = f"model {record.model}" if record.model else "no model named"
    yield plain(f"{_time(record.at)}  {record.request_id}  {record.kind}, {model}{rewritten}")
    if record.refused is not None:
        status = f" with {record.status}" if record.status else ""
        yield plain(f"refused{status}: {record.refused}")
        yield from _times(record)
        return
    yield f"went to   {record.endpoint}{_stages(record)}"
    yield f"prompt    {_prompt(record)}"
    yield f"answer    {_answer(record)}"
    yield from _times(record)
    for fallback in record.fallbacks:
        yield f"note      {plain(fallback)}"
    if record.served is not None:
        yield f"note      {record.served} answered: the one picked could not be reached"


def _times(record: Record) -> Iterator[str]:
    """What each stage took; nothing of a request that reached none."""
    times = ", ".join(f"{plain(stage)} {ms:.2f}" for stage, ms in record.times_ms.items())
    if times:
        yield f"pick      {record.took_ms:.2f} ms: {times}"


def _stages(record: Record) -> str:
    stages = {"prefill at": record.prefill, "encode at": record.encode}
    told = [f"{name} {stage.endpoints[0]}" for name, stage in stages.items() if stage is not None]
    return f" ({', '.join(told)})" if told else ""


def _prompt(record: Record) -> str:
    if record.block_size == 0 and record.prompt_tokens is None:
        return "its tokens are not known: it went by load"
    tokens = (
        "so far known, " if record.prompt_tokens is None else f"{record.prompt_tokens} tokens, "
    )
    blocks = f"{record.total_blocks} blocks of {record.block_size}"
    cached = _number(record.predicted_cached_tokens)
    reported = record.reported_cached_tokens
    engine = "the engine did not say" if reported is None else f"the engine reports {reported}"
    if record.prompts > 1:
        tokens = f"{tokens.removesuffix(', ')} in the first of {record.prompts} prompts, "
        engine = "the engine counts all of them"
    return f"{tokens}{blocks}; {cached} tokens expected from the cache, {engine}"


def _answer(record: Record) -> str:
    if record.status is None:
        return "none yet" if record.duration_ms is None else "none came"
    told = f"status {record.status}"
    if record.duration_ms is None:
        return told
    return f"{told} after {record.duration_ms:.0f} ms{'' if record.completed else ', cut short'}"


def _candidates(
    picked: str, told: Record | StageRecord, prefix: Mapping[str, HeldPrefix]
) -> Iterator[str]:
    """Best first: what each scorer gave, raw and weighted, and what is held of the prompt."""
    scorers = list(told.scores)
    names = [scorer.removesuffix("-scorer") for scorer in scorers]
    weights = [f"{told.weights.get(scorer, 1):g}" for scorer in scorers]
    columns = (f"{name} x{weight}" for name, weight in zip(names, weights, strict=True))
    head = ("  endpoint", "total", *columns, "holds")
    ranked = sorted(told.totals, key=lambda a: (-told.totals[a], a != picked))
    shown = ranked[:MAX_ROWS]
    if picked in ranked[MAX_ROWS:]:
        shown[-1] = picked
    rows = [
        (
            f"{'>' if address == picked else ' '} {address}",
            f"{told.totals[address]:.3f}",
            *(_score(told, scorer, address) for scorer in scorers),
            _held(prefix.get(address)),
        )
        for address in shown
    ]
    yield from table(head, rows)
    if len(ranked) > len(shown):
        yield f"  … and {len(ranked) - len(shown)} more"
    yield from map(_dropped, told.dropped)


def _score(told: Record | StageRecord, scorer: str, address: str) -> str:
    score = told.scores[scorer].get(address, 0.0)
    return f"{score:.2f} = {score * told.weights.get(scorer, 1.0):.2f}"


def _held(held: HeldPrefix | None) -> str:
    if held is None or not held.speculative:
        return NONE
    parts = [f"{blocks} {plain(tier)}" for tier, blocks in held.tiers.items() if blocks]
    guessed = held.speculative - held.blocks
    return ", ".join([*parts, f"{guessed} guessed"] if guessed else parts)


def _dropped(step: Dropped) -> str:
    why = f": {step.why}" if step.why else ""
    more = len(step.addresses) - MAX_ROWS
    others = f" and {more} more" if more > 0 else ""
    return plain(f"  {step.filter} dropped {', '.join(step.addresses[:MAX_ROWS])}{others}{why}")


def _time(unix_s: float) -> str:
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).strftime("%H:%M:%S")


def _number(value: int | None) -> str:
    return NONE if value is None else str(value)
