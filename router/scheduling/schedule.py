"""schedule(): one profile's outcome, as a function of values. Same arguments, same outcome."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from router.errors import NoEndpoints, RouterError, Saturated
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, HeldBack, KeptOut
from router.request.types import Request
from router.scheduling.types import Dropped, NamedFilter, Outcome, Profile

KEPT_OUT = "kept-out"
"""What records call the step that leaves out endpoints whose answers failed."""

NEWCOMERS = "newcomers"
"""What they call the one that leaves out endpoints which just came."""

_WHY: Mapping[str, str] = {
    KEPT_OUT: "its last answers failed",
    NEWCOMERS: "it just came and is given work step by step",
}


def schedule(
    profile: Profile,
    request: Request,
    endpoints: Sequence[Endpoint],
    facts: Facts,
    rng: random.Random,
) -> Outcome:
    """Filter, score, pick.

    Endpoints that are kept out are shown to no plugin, and those held back to no scorer, unless
    nobody else is left by then.
    A total is the sum of weight x score and is not divided by the weights, as in llm-d.
    Raises NoEndpoints for an empty pool or where a role or label filter leaves nobody, Saturated
    where a load filter does.
    """
    if not endpoints:
        raise NoEndpoints("no endpoint is available")
    endpoints, dropped = _without_new(*_narrowed(profile, request, endpoints, facts), facts)
    totals = [0.0] * len(endpoints)
    scores: dict[str, Mapping[str, float]] = {}
    addresses = [endpoint.address for endpoint in endpoints]
    for scorer in profile.scorers:
        rated = _clamped(scorer.plugin.score(request, endpoints, facts))
        scores[scorer.name] = dict(zip(addresses, rated, strict=True))
        weight = scorer.weight
        totals = [total + weight * score for total, score in zip(totals, rated, strict=True)]
    return Outcome(
        profile=profile.name,
        targets=tuple(profile.picker.pick(endpoints, totals, rng)),
        totals=dict(zip(addresses, totals, strict=True)),
        scores=scores,
        dropped=dropped,
        weights={scorer.name: scorer.weight for scorer in profile.scorers},
    )


def _clamped(scores: Sequence[float]) -> Sequence[float]:
    # Nearly always nothing is to be done, and looking at the ends costs less than at each.
    if min(scores) >= 0.0 and max(scores) <= 1.0:
        return scores
    return [min(max(score, 0.0), 1.0) for score in scores]


def _narrowed(
    profile: Profile, request: Request, endpoints: Sequence[Endpoint], facts: Facts
) -> tuple[Sequence[Endpoint], tuple[Dropped, ...]]:
    """Who is left, and who was dropped on the way."""
    out = facts.get(KeptOut)
    others = endpoints if out is None else [e for e in endpoints if e.address not in out.addresses]
    if 0 < len(others) < len(endpoints):
        try:
            left, dropped = _filtered(profile, request, others, facts)
        except NoEndpoints:
            # Roles or labels leave none of the others: one that failed is better than nobody.
            return _filtered(profile, request, endpoints, facts)
        return left, (_dropped(KEPT_OUT, _WHY[KEPT_OUT], endpoints, others), *dropped)
    return _filtered(profile, request, endpoints, facts)


def _without_new(
    endpoints: Sequence[Endpoint], dropped: tuple[Dropped, ...], facts: Facts
) -> tuple[Sequence[Endpoint], tuple[Dropped, ...]]:
    """Who is left without those held back, if anybody is."""
    new = facts.get(HeldBack)
    if new is None:
        return endpoints, dropped
    others = [e for e in endpoints if e.address not in new.addresses]
    if not others or len(others) == len(endpoints):
        return endpoints, dropped
    return others, (*dropped, _dropped(NEWCOMERS, _WHY[NEWCOMERS], endpoints, others))


def _filtered(
    profile: Profile, request: Request, endpoints: Sequence[Endpoint], facts: Facts
) -> tuple[Sequence[Endpoint], tuple[Dropped, ...]]:
    dropped = []
    for named in profile.filters:
        kept = named.plugin.filter(request, endpoints, facts)
        if len(kept) < len(endpoints):
            dropped.append(_dropped(named.name, named.plugin.why, endpoints, kept))
        if not kept:
            raise _nobody(named, dropped)
        endpoints = kept
    return endpoints, tuple(dropped)


def _dropped(step: str, why: str, before: Sequence[Endpoint], after: Sequence[Endpoint]) -> Dropped:
    stayed = {endpoint.address for endpoint in after}
    return Dropped(step, tuple(e.address for e in before if e.address not in stayed), why)


def _nobody(named: NamedFilter, dropped: Sequence[Dropped]) -> RouterError:
    if named.plugin.by_load:
        error: RouterError = Saturated(f"{named.name} left no endpoint: all are too busy")
    else:
        error = NoEndpoints(f"{named.name} left no endpoint")
    error.dropped = tuple(dropped)
    return error
