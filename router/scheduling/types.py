"""The shapes that profile handlers, filters, scorers and pickers share."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request

_NO_HEADERS: Mapping[str, str] = {}

_NO_WEIGHTS: Mapping[str, float] = {}

_Built_co = TypeVar("_Built_co", covariant=True)


class Builds(Protocol[_Built_co]):
    """Parameters of a plugin that remembers."""

    def build(self) -> _Built_co:
        """The plugin, with nothing to remember yet."""
        ...


class Filter(Protocol):
    """Narrows the candidates.

    Attributes:
        by_load: It drops for load, so an empty result means 429 and not 503.
        why: What is wrong with those it drops, in a few words.
    """

    @property
    def by_load(self) -> bool: ...

    @property
    def why(self) -> str: ...

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        """Return a subset of `endpoints`, in the same order."""
        ...


class Scorer(Protocol):
    """Rates the candidates."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        """Return one score per endpoint, in the same order, each in [0, 1], higher is better.

        `endpoints` is never empty.
        """
        ...


class Picker(Protocol):
    """Chooses among the rated."""

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        """Choose one or more, best first. `endpoints` is never empty."""
        ...


class Named(msgspec.Struct, frozen=True):
    """The name a plugin has in the configuration; what the records of a decision call it."""

    name: str


class NamedFilter(Named, frozen=True):
    """A filter of a profile."""

    plugin: Filter


class NamedScorer(Named, frozen=True):
    """A scorer of a profile and what its score counts."""

    plugin: Scorer
    weight: float = 1.0


class Profile(msgspec.Struct, frozen=True):
    """One pass of filter, score, pick, in the order of the configuration.

    Attributes:
        prefix_producer: Whose prefix matches it goes by; empty: those of the only producer.
    """

    name: str
    filters: tuple[NamedFilter, ...]
    scorers: tuple[NamedScorer, ...]
    picker: Picker
    prefix_producer: str = ""


class Dropped(msgspec.Struct, frozen=True):
    """What one filter took out.

    Attributes:
        filter: The filter's name.
        addresses: Endpoints it dropped.
        why: What is wrong with them, in a few words.
    """

    filter: str
    addresses: tuple[str, ...]
    why: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What one profile came to.

    Attributes:
        profile: Its name.
        targets: The picks, best first.
        totals: Weighted total per candidate address.
        scores: Scorer name -> address -> its unweighted score.
        dropped: What each filter took out, in order.
        weights: Scorer name -> what its score counts.
    """

    profile: str
    targets: tuple[Endpoint, ...]
    totals: Mapping[str, float]
    scores: Mapping[str, Mapping[str, float]]
    dropped: tuple[Dropped, ...]
    weights: Mapping[str, float] = _NO_WEIGHTS

    @property
    def endpoint(self) -> Endpoint:
        """The first pick."""
        return self.targets[0]


class Decision(msgspec.Struct, frozen=True):
    """Where a request goes and why.

    Attributes:
        primary: Whose pick answers the request: in P/D the one that decodes.
        prefill: Whose pick computes the prompt, where that is done elsewhere.
        encode: Whose picks encode its media, where that is done elsewhere.
        destinations: Addresses the proxy is told, best first, where they are not those of the
            picks.
        headers: What else the engine is told.
        response_headers: What the client is told besides the engine's answer.
        left_out: Endpoints that no profile was shown.
        kind: Which stages it has, in llm-d's words; empty where the handler knows none.
    """

    primary: Outcome
    prefill: Outcome | None = None
    encode: Outcome | None = None
    destinations: tuple[str, ...] = ()
    headers: Mapping[str, str] = _NO_HEADERS
    response_headers: Mapping[str, str] = _NO_HEADERS
    left_out: tuple[Dropped, ...] = ()
    kind: str = ""

    @property
    def endpoint(self) -> Endpoint:
        """The first pick."""
        return self.primary.targets[0]

    def of(self, profile: str) -> Outcome | None:
        """What a profile came to; the primary one where none is named."""
        outcomes = (self.primary, self.prefill, self.encode)
        if not profile:
            return self.primary
        return next((o for o in outcomes if o is not None and o.profile == profile), None)

    @property
    def holders(self) -> tuple[Endpoint, ...]:
        """The endpoints that will have the prompt's prefix in their cache."""
        if self.prefill is None or self.prefill.endpoint.address == self.endpoint.address:
            return (self.endpoint,)
        return self.endpoint, self.prefill.endpoint

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where the proxy sends the request, best first."""
        return self.destinations or tuple(target.address for target in self.primary.targets)


class Answerer(Protocol):
    """Adds to the headers of answers."""

    def answer_headers(self, served: str) -> Mapping[str, str]:
        """Headers to set. `served` is who answers, as far as the data plane says; else empty."""
        ...


class Admitter(Protocol):
    """Turns requests away before anything is picked for them."""

    def admit(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        """Raises a RouterError that says why not."""
        ...


class ProfileHandler(Protocol):
    """Says which profiles run for a request and how their outcomes become one decision."""

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        """Raises NoEndpoints or Saturated."""
        ...


class Decider(Protocol):
    """Says whether a stage of its own does a part of a request's work."""

    def disaggregates(self, request: Request, endpoint: Endpoint | None, facts: Facts) -> bool:
        """`endpoint` would do that part otherwise; None where it is not picked yet."""
        ...


class Staged(Protocol):
    """Parameters of a profile handler that names profiles and deciders.

    Both mappings go from a field, as the configuration writes it, to the name that stands there.
    """

    def profile_names(self, declared: Collection[str]) -> Mapping[str, str]:
        """The profiles that must be among those declared."""
        ...

    def decider_names(self) -> Mapping[str, str]:
        """The deciders that are asked."""
        ...

    def link(self, deciders: Mapping[str, Decider]) -> ProfileHandler:
        """The handler; `deciders` holds those named, by field.

        A handler that does not run every profile says in `runs()` which ones it may.
        """
        ...
