"""inflight-load-producer: requests and tokens this router has in flight at each endpoint.

A request counts from the pick to its end. The tokens of its prompt that an endpoint does not hold
count until the answer starts: then they are computed. Where the prompt is computed at another
endpoint than the answer, its tokens count there, and the request counts at both until then. All
tokens of its prompt count as held as long as the request itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.accounts import fairness_id
from router.producers.facts import Facts, InFlight, PrefixMatch, Tokens, Uncached
from router.request.output_limit import output_limit
from router.request.types import Request
from router.scheduling.types import Decision


class InFlightLoadParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        add_estimated_output_tokens: Count what will probably be generated, too; a request's tokens
            then count to its end.
        output_ratio: Tokens generated per token of the prompt.
        max_estimated_output_tokens: No estimate is higher; None: any is right.
        prefix_match_info_producer_name: Whose matches say what need not be computed; empty: those
            of the first producer that states any.
        sync_cross_replica_state: Accepted; has no effect.
    """

    add_estimated_output_tokens: bool = False
    output_ratio: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.5
    max_estimated_output_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    prefix_match_info_producer_name: str = ""
    sync_cross_replica_state: bool = True

    def needs(self) -> tuple[tuple[type, str], ...]:
        """A match is no need unless it is named: without one nothing is held."""
        name = self.prefix_match_info_producer_name
        matches = ((PrefixMatch, name),) if name else ()
        return (*matches, (Tokens, "")) if self.add_estimated_output_tokens else matches


_PLAIN = InFlightLoadParameters()


_AllCounts = tuple[dict[str, int], ...]
"""By endpoint address, each of them counting the same."""


class Account(NamedTuple):
    """Who is served: on whose account, and how urgently."""

    fairness_id: str
    priority: int


class Share:
    """What is in flight of one account.

    Attributes:
        requests: Endpoint address -> requests; an address with none is absent.
        tokens: Endpoint address -> tokens, likewise.
    """

    __slots__ = ("requests", "tokens")

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.tokens: dict[str, int] = {}


class InFlightLoad:
    """States InFlight, and Uncached where the prompt's tokens are known."""

    def __init__(self, name: str, parameters: InFlightLoadParameters = _PLAIN) -> None:
        self.name = name
        self._parameters = parameters
        self._requests: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._prompts: dict[str, int] = {}
        self._shares: dict[Account, Share] = {}

    @property
    def requests(self) -> Mapping[str, int]:
        """Endpoint address -> requests in flight; an address with none is absent."""
        return self._requests

    @property
    def tokens(self) -> Mapping[str, int]:
        """Endpoint address -> tokens in flight; an address with none is absent."""
        return self._tokens

    @property
    def shares(self) -> Mapping[Account, Share]:
        """The same by account; one that has nothing in flight is absent."""
        return self._shares

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        # The live mappings, not copies: a pick follows without awaiting, and no one writes to them.
        facts.put(InFlight(self._requests, self._tokens, self._prompts), self.name)
        tokens = facts.get(Tokens)
        if tokens is not None:
            match = facts.get(PrefixMatch, self._parameters.prefix_match_info_producer_name)
            addresses = [endpoint.address for endpoint in endpoints]
            facts.put(Uncached(uncached(tokens.count, match, addresses)), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> _Held:
        state = facts.get(Uncached, self.name)
        prompt = state.tokens if state is not None else {}
        output = self._output(request, facts)
        here = decision.endpoint.address
        computing = decision.holders[-1].address
        account = Account(fairness_id(request, facts), request.priority)
        share = self._shares.get(account)
        if share is None:
            share = self._shares[account] = Share()
        requests, tokens = (self._requests, share.requests), (self._tokens, share.tokens)
        held = _Held(here, self._shares, account)
        for address in _others(decision):
            held.until_response(requests, address, 1)
        held.until_end(requests, here, 1)
        keep = self._parameters.add_estimated_output_tokens and computing == here
        charge = held.until_end if keep else held.until_response
        charge(tokens, computing, prompt.get(computing, 0))
        held.until_end(tokens, here, output)
        ids = facts.get(Tokens)
        count = ids.count if ids is not None else 0
        held.until_end((self._prompts,), here, count)
        if computing != here:
            held.until_response((self._prompts,), computing, count)
        return held

    def _output(self, request: Request, facts: Facts) -> int:
        """Tokens that will probably be generated; 0 where they are not counted."""
        tokens, parameters = facts.get(Tokens), self._parameters
        if tokens is None or not parameters.add_estimated_output_tokens:
            return 0
        estimate = int(tokens.count * parameters.output_ratio)
        limits = (output_limit(request), parameters.max_estimated_output_tokens)
        return min([estimate, *(limit for limit in limits if limit is not None)])


def _others(decision: Decision) -> Sequence[str]:
    """Endpoints that do a part of a request's work and do not answer it."""
    if decision.prefill is None and decision.encode is None:
        return ()
    stages = (decision.prefill, decision.encode)
    return sorted({o.endpoint.address for o in stages if o} - {decision.endpoint.address})


def uncached(count: int, match: PrefixMatch | None, addresses: Sequence[str]) -> Mapping[str, int]:
    """Endpoint -> tokens of a prompt of `count` that it would have to compute.

    What is held counts as much as its tier is worth: a block that has to be loaded costs the rest.
    """
    if match is None:
        return dict.fromkeys(addresses, count)
    size, held = match.block_size, match.held
    beyond = max(0, count - match.total_blocks * size)
    left = dict.fromkeys(addresses, count)
    for address in left.keys() & held.keys():
        blocks = match.total_blocks - held[address].weighted
        left[address] = min(count, max(0, round(blocks * size)) + beyond)
    return left


class _Held:
    """One request's part of the counts, given back piece by piece."""

    def __init__(self, first_pick: str, shares: dict[Account, Share], account: Account) -> None:
        self._first_pick = first_pick
        self._shares = shares
        self._account = account
        self._until_response: list[_Part] = []
        self._until_end: list[_Part] = []

    def until_response(self, counts: _AllCounts, address: str, amount: int) -> None:
        """Count until the answer starts."""
        if amount:
            self._until_response.append(_Part(counts, address, amount))

    def until_end(self, counts: _AllCounts, address: str, amount: int) -> None:
        """Count until the exchange is over."""
        if amount:
            self._until_end.append(_Part(counts, address, amount))

    def served_by(self, address: str) -> None:
        for part in (*self._until_response, *self._until_end):
            if part.address == self._first_pick:
                part.move(address)

    def responded(self, status: int) -> None:
        _give_back(self._until_response)

    def ended(self) -> None:
        _give_back(self._until_response)
        _give_back(self._until_end)
        share = self._shares[self._account]
        if not share.requests:  # and so no tokens: nobody counts those longer than its request
            del self._shares[self._account]


class _Part:
    """So much of some counts, more than nothing."""

    __slots__ = ("_amount", "_counts", "address")

    def __init__(self, counts: _AllCounts, address: str, amount: int) -> None:
        self._counts = counts
        self.address = address
        self._amount = amount
        self._take()

    def move(self, address: str) -> None:
        """Count at another endpoint."""
        self.give_back()
        self.address = address
        self._take()

    def give_back(self) -> None:
        """Count no more."""
        address, amount = self.address, self._amount
        for counts in self._counts:
            left = counts[address] - amount
            if left:
                counts[address] = left
            else:
                del counts[address]

    def _take(self) -> None:
        address, amount = self.address, self._amount
        for counts in self._counts:
            counts[address] = counts.get(address, 0) + amount


def _give_back(parts: list[_Part]) -> None:
    while parts:
        parts.pop().give_back()
