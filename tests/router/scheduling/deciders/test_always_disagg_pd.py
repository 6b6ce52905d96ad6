from __future__ import annotations

from router.producers.facts import Facts
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from tests.support import make


def test_it_always_says_yes() -> None:
    decider = AlwaysDisaggPdDecider()
    assert decider.disaggregates(make.request(), None, Facts())
    assert decider.disaggregates(make.request(), make.endpoint(), Facts())
