"""What was decided, why, and what came of it: the last requests, for people who ask."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from router.producers.facts import HeldPrefix
from router.request.usage import Usage
from router.scheduling.types import Dropped


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
        endpoint: Address picked; None where the request was refused.
        stages: What llm-d calls a decision of several stages; empty where there is one.
        prefill: Address that computes the prompt for it.
        encode: Addresses that encode its media for it.
        prefill_result: What became of that prefill: ok or failed; None until known.
        refused: Why, where it was.
        took_ms: From then to the pick.
        prompt_tokens: Tokens of the prompt; None where they are not known.
        predicted_cached_tokens: Prompt tokens the endpoint was expected to reuse.
        totals: Weighted total per candidate.
        scores: Scorer -> candidate -> unweighted score.
        dropped: What each filter took out.
        prefix: Candidate -> what it holds of the prompt.
        served: Address that answered, where it is not the one picked.
        status: HTTP status of the answer; None until it came.
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
    fairness_id: str = "default-flow"
    endpoint: str | None = None
    stages: str = ""
    prefill: str | None = None
    encode: Sequence[str] = ()
    prefill_result: str | None = None
    refused: str | None = None
    took_ms: float = 0.0
    prompt_tokens: int | None = None
    predicted_cached_tokens: int | None = None
    totals: Mapping[str, float] = {}
    scores: Mapping[str, Mapping[str, float]] = {}
    dropped: Sequence[Dropped] = ()
    prefix: Mapping[str, HeldPrefix] = {}
    served: str | None = None
    status: int | None = None
    streamed: bool = False
    first_ms: float | None = None
    usage: Usage | None = None
    usage_unreadable: bool = False
    duration_ms: float | None = None
    completed: bool = False


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

    def last(self, limit: int) -> list[Record]:
        """Newest first."""
        newest = reversed(self._records.values())
        return [record for record, _ in zip(newest, range(limit), strict=False)]
