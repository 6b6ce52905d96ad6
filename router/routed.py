"""A request on its way: what the data plane is told, and what must be given back at its end."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from router.producers.types import Lease, PrefillLease
from router.request.answers import Renamer
from router.request.types import Request
from router.request.usage import UsageReader
from router.scheduling.types import Decision
from router.telemetry.decisions import Record

_NO_SCORES: Mapping[str, float] = {}


class Reading(enum.Enum):
    """What is wanted of a response body."""

    NOTHING = enum.auto()
    COPY = enum.auto()
    CHANGE = enum.auto()


class Routed:
    """One request between its decision and the end of its exchange.

    Attributes:
        record: What is known of it.
        destination: ``ip:port``; several are joined by commas, best first.
        endpoint: Address that is held to account for it: the first pick, then whoever answers.
        headers: Set on the request besides.
        scores: Endpoint address -> its total, where the data plane is told those too.
        body: Sent instead of the client's; None: that goes on as it is.
        models: The name that was sent and the client's, where they differ.
        leases: What producers keep for it.
        sampled: Its usage is to be read.
        usage: Reads it.
        renamer: Gives the answer the client's name of the model back.
        answer_headers: Set on the answer.
        whole: The answer came in full, as far as the data plane shows; where its body comes here,
            that is once the last piece was here.
        chunk_at: Unix time of the last piece of its answer.
    """

    def __init__(
        self,
        record: Record,
        request: Request,
        decision: Decision,
        headers: Mapping[str, str],
        leases: Sequence[Lease],
        *,
        sampled: bool,
    ) -> None:
        """`headers` are set on the request; what the decision has for the answer is for one of the
        first pick that is no failure."""
        self.record = record
        self.destination = ",".join(decision.addresses)
        self.endpoint = decision.addresses[0]
        self.headers = headers
        self.body = request.sent
        self.models = (request.model, request.asked_model) if request.rewritten_by else None
        self.scores = _NO_SCORES
        self.leases = leases
        self.sampled = sampled
        self.usage: UsageReader | None = None
        self.renamer: Renamer | None = None
        self.answer_headers: dict[str, str] = {}
        self._of_first_pick = decision.response_headers
        self.chunk_at = 0.0
        self.whole = False

    def prefilled(self, *, failed: bool) -> None:
        """The sidecar of who answers told what became of the prefill."""
        self.record.prefill_result = "failed" if failed else "ok"
        if not failed:
            return
        # Another endpoint than expected computes the prompt: there is nothing to compare.
        self.record.predicted_cached_tokens = None
        for lease in self.leases:
            if isinstance(lease, PrefillLease):
                lease.prefill_failed()

    def served_by(self, address: str) -> None:
        """Another endpoint than the first pick answers."""
        self.endpoint = self.record.served = address
        for lease in self.leases:
            lease.served_by(address)

    def succeeded(self) -> None:
        """Its answer is no failure."""
        # Where another one answers, they would lead the client back to who could not be reached.
        if self.record.served is None:
            self.answer_headers.update(self._of_first_pick)

    @property
    def reading(self) -> Reading:
        """What is wanted of the body of its answer."""
        if self.renamer is not None:
            return Reading.CHANGE
        return Reading.NOTHING if self.usage is None else Reading.COPY
