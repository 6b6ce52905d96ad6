"""What this router has in flight, for the metrics page: by producer, endpoint and account."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from router.pool.endpoint import Endpoint
from router.producers.inflight import InFlightLoad
from router.telemetry.samples import Sample, Values

SHOWN_S = 300.0
"""A series that came down to zero is shown so long, so that whoever asks sees that it did."""

MAX_IDLE = 2000
"""Series at zero that are shown at all; beyond that, those go first that were zero first."""

_LABELS = ("endpoint_name", "namespace", "producer_name", "fairness_id", "priority")
_ENDPOINT = ("model_server_endpoint",)


class InFlightSeries:
    """Remembers which series there were, and nothing of the requests themselves."""

    def __init__(
        self,
        endpoints: Callable[[], Sequence[Endpoint]],
        loads: Sequence[InFlightLoad],
        account: Callable[[str], str],
        clock: Callable[[], float],
    ) -> None:
        """`account`: what a fairness id is called in labels; `clock` gives monotonic seconds."""
        self._endpoints = endpoints
        self._loads = loads
        self._account = account
        self._clock = clock
        self._used_at: dict[tuple[str, ...], float] = {}

    def samples(self) -> Iterator[Sample]:
        """By producer and account under llm-d's names; under ours those of the first producer,
        which records go by."""
        requests, tokens = self._counted()
        for idle in self._idle({**requests, **tokens}):
            requests.setdefault(idle, 0)
            tokens.setdefault(idle, 0)
        text = "Sent by this router and not yet answered in full."
        yield Sample("llm_d_epp_inflight_requests", text, requests, _LABELS)
        text = "That those requests still have to compute."
        yield Sample("llm_d_epp_inflight_tokens", text, tokens, _LABELS)
        for load in self._loads[:1]:
            sent: Values = {(a,): float(n) for a, n in load.requests.items()}
            yield Sample("warmroute_inflight_requests", "From this router.", sent, _ENDPOINT)
            computed: Values = {(a,): float(n) for a, n in load.tokens.items()}
            yield Sample("warmroute_inflight_tokens", "They have to compute.", computed, _ENDPOINT)

    def _counted(self) -> tuple[Counter[tuple[str, ...]], Counter[tuple[str, ...]]]:
        known = {e.address: (e.name, e.namespace) for e in self._endpoints()}
        requests: Counter[tuple[str, ...]] = Counter()
        tokens: Counter[tuple[str, ...]] = Counter()
        for load in self._loads:
            for (fairness_id, priority), share in load.shares.items():
                account = (load.name, self._account(fairness_id), str(priority))
                for counts, told in ((share.requests, requests), (share.tokens, tokens)):
                    for address, count in counts.items():
                        told[(*known.get(address, (address, "")), *account)] += count
        return requests, tokens

    def _idle(self, used: Mapping[tuple[str, ...], int]) -> list[tuple[str, ...]]:
        """The series that are at zero, as far as they are still shown."""
        now = self._clock()
        for labels in used:
            self._used_at.pop(labels, None)
        idle = [labels for labels, at in self._used_at.items() if now - at <= SHOWN_S][-MAX_IDLE:]
        self._used_at = {labels: self._used_at[labels] for labels in idle}
        self._used_at.update(dict.fromkeys(used, now))
        return idle
