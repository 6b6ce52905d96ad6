"""What was decided, why, and what came of it: the last requests, for people who ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from router.producers.accounts import DEFAULT_FLOW
from router.producers.facts import HeldPrefix
from router.request.usage import Usage
from router.scheduling.types import Dropped

MAX_ADDRESSES = 100
"""Endpoints of a larger pool that a record names one by one: the best, and so many dropped ones."""


class StageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who prefills or encodes, where another endpoint than the one that answers does.

    Attributes:
        profile: Name of the profile that picked.
        endpoints: The picks, best first.
        totals: Weighted total per candidate.
        scores: Scorer -> candidate -> unweighted score.
        weights: Scorer -> what its score counts.
        dropped: What each filter took out.
    """

    profile: str
    endpoints: Sequence[str]
    totals: Mapping[str, float] = {}
    scores: Mapping[str, Mapping[str, float]] = {}
    weights: Mapping[str, float] = {}
    dropped: Sequence[Dropped] = ()


class Record(msgspec.Struct, kw_only=True):
    """One request, from the pick to the end of its response. Filled in as it goes.

    Attributes:
        request_id: The client's, or the one made for it.
        at: Unix time at which the request was here in full.
        kind: Name of the API; other where the body was not read.
        model: Model name the client asked for.
        target_model: Model name the request was sent to.
        rewritten_by: What rewrote the name: a rule's place, or header; empty where nothing did.
        fairness_id: On whose account the request went.
        traceparent: The span it belongs to, as it said; W3C's form, as `tracestate`.
        priority: That of its objective.
        endpoint: Address picked; None where the request was refused.
        stages: What llm-d calls a decision of several stages; empty where there is one.
        prefill: Who computes the prompt, where that is done elsewhere.
        encode: Who encodes its media, where that is done elsewhere.
        prefill_result: What became of that prefill: ok or failed; None until known.
        request_bytes: Size of its body; None where that is not shown.
        response_bytes: Bytes of the answer's body that were seen.
        refused: Why, where it was.
        took_ms: From then to the pick, or to the refusal.
        times_ms: What of it each stage took: parse, each producer by its name, wait (for
            admission), schedule.
        own_ms: Until it was told where to go, without waiting for others; None: it was not read.
        answer_ms: Spent on the headers of its answer, and on what is shown of the body.
        prompts: How many prompts it holds; what is told of its prompt is told of the first.
        prompt_tokens: Tokens of the prompt; None where they are not known.
        predicted_cached_tokens: Prompt tokens that whoever computes it was expected to reuse.
        profile: Name of the profile that picked it.
        candidates: Endpoints that the profile's filters were shown.
        totals: Weighted total per candidate.
        scores: Scorer -> candidate -> unweighted score.
        weights: Scorer -> what its score counts.
        dropped: What each filter took out, and why.
        prefix_producer: Name of who says what is held of the prompt.
        prefix: Candidate -> what it holds of the prompt.
        total_blocks: Full blocks of the prompt.
        block_size: Tokens per block; 0 where no prefix was looked up.
        prefix_id: Names the part of the prompt that was held: equal where that is equal.
        fallbacks: What was missing and had to be done without, in a few words each.
        served: Address that answered, where it is not the one picked.
        status: HTTP status of the answer, or of the refusal; None until it came.
        usage: What the engine reports; None where it was not read or not said.
        streamed: The answer is a stream of events.
        first_ms: From then to the first piece of the answer's body; None where that is not seen.
        usage_unreadable: It was read and made no sense.
        duration_ms: From then to the end of the response; None until it ended.
        completed: The response came in full as far as the data plane shows.
    """

    request_id: str
    at: float
    kind: str
    model: str
    target_model: str = ""
    rewritten_by: str = ""
    fairness_id: str = DEFAULT_FLOW
    traceparent: str = ""
    tracestate: str = ""
    priority: int = 0
    endpoint: str | None = None
    stages: str = ""
    prefill: StageRecord | None = None
    encode: StageRecord | None = None
    prefill_result: str | None = None
    request_bytes: int | None = None
    response_bytes: int = 0
    refused: str | None = None
    took_ms: float = 0.0
    times_ms: Mapping[str, float] = {}
    own_ms: float | None = None
    answer_ms: float = 0.0
    prompts: int = 1
    prompt_tokens: int | None = None
    predicted_cached_tokens: int | None = None
    profile: str = ""
    candidates: int = 0
    totals: Mapping[str, float] = {}
    scores: Mapping[str, Mapping[str, float]] = {}
    weights: Mapping[str, float] = {}
    dropped: Sequence[Dropped] = ()
    prefix_producer: str = ""
    prefix: Mapping[str, HeldPrefix] = {}
    total_blocks: int = 0
    block_size: int = 0
    prefix_id: str = ""
    fallbacks: Sequence[str] = ()
    served: str | None = None
    status: int | None = None
    streamed: bool = False
    first_ms: float | None = None
    usage: Usage | None = None
    usage_unreadable: bool = False
    duration_ms: float | None = None
    completed: bool = False

    @property
    def reported_cached_tokens(self) -> int | None:
        """Prompt tokens that the engine says it reused; None where it does not say it of the prompt
        alone that the prediction is of."""
        return self.usage.cached_tokens if self.usage and self.prompts == 1 else None


class Decisions:
    """The last `limit` records, newest last. An id that comes again replaces the older one."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._records: OrderedDict[str, Record] = OrderedDict()

    def add(self, record: Record) -> None:
        """Keep a record; it may still change."""
        self._records.pop(record.request_id, None)
        self._records[record.request_id] = record
        if len(self._records) > self._limit:
            self._records.popitem(last=False)

    def get(self, request_id: str) -> Record | None:
        """One record."""
        return self._records.get(request_id)

    def all(self) -> Iterable[Record]:
        """Oldest first; not to be kept while requests come."""
        return self._records.values()

    def last(self, limit: int) -> list[Record]:
        """Newest first."""
        newest = reversed(self._records.values())
        return [record for record, _ in zip(newest, range(limit), strict=False)]
