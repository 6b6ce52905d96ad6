"""What the director makes of prefills: whom it leaves alone, what it records and passes on."""

from __future__ import annotations

import msgspec

from router.pool.pool import Pool
from router.producers.facts import PrefixMatch
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.profiles.stages import StageHandler
from tests.router.directing import Fixture
from tests.router.scheduling.profiles import stage_pool
from tests.support import make


class Staged(Fixture):
    """A director over prefill and decode endpoints, which prefills elsewhere always."""

    def __init__(self, **roles: str) -> None:
        super().__init__(handler=StageHandler(prefill_decider=AlwaysDisaggPdDecider()))
        self.pool = Pool(stage_pool.endpoints(**roles))
        self.director._pool = self.pool
        self.director.lineup = msgspec.structs.replace(
            self.director.lineup, profiles=stage_pool.profiles()
        )

    async def prefill(self, result: str) -> str | None:
        """Where a request was prefilled that came to this."""
        routed = await self.route()
        self.director.responded(routed, 200, {"x-warmroute-prefill": result})
        self.director.ended(routed)
        prefill = routed.record.prefill
        return None if prefill is None else prefill.endpoints[0]


async def test_a_record_says_which_stages_a_request_has() -> None:
    fixture = Staged(p1="prefill", d1="decode")
    assert await fixture.prefill("ok") == "p1:1"
    (record,) = fixture.notes.ended_
    assert (record.endpoint, record.stages) == ("d1:1", "prefill-decode")
    assert record.prefill_result == "ok"


async def test_an_endpoint_whose_prefills_fail_is_left_while_others_exist() -> None:
    fixture = Staged(p1="prefill", p2="prefill", d1="decode")
    assert [await fixture.prefill("failed") for _ in range(3)] == ["p1:1"] * 3
    assert await fixture.prefill("ok") == "p2:1"
    fixture.seconds += 11
    assert await fixture.prefill("ok") == "p1:1"


async def test_the_only_prefill_endpoint_is_asked_however_often_it_fails() -> None:
    fixture = Staged(p1="prefill", d1="decode", d2="decode")
    assert [await fixture.prefill("failed") for _ in range(6)] == ["p1:1"] * 6


async def test_one_success_ends_a_row_of_failed_prefills() -> None:
    fixture = Staged(p1="prefill", p2="prefill", d1="decode")
    for result in ("failed", "failed", "ok", "failed", "failed"):
        assert await fixture.prefill(result) == "p1:1"
    assert await fixture.prefill("ok") == "p1:1"


async def test_what_was_expected_of_a_prefill_that_failed_is_not_compared() -> None:
    fixture = Staged(p1="prefill", d1="decode")
    held = {"p1:1": make.held(3), "d1:1": make.held(1)}
    fixture.known.match = PrefixMatch(4, 16, held)
    await fixture.prefill("ok")
    await fixture.prefill("failed")
    good, bad = fixture.notes.ended_
    assert good.predicted_cached_tokens == 48
    assert (bad.predicted_cached_tokens, bad.prefill_result) == (None, "failed")


async def test_what_an_engine_says_of_a_prefill_that_nobody_ordered_does_not_count() -> None:
    fixture = Fixture("a:1")
    routed = await fixture.route()
    fixture.director.responded(routed, 200, {"x-warmroute-prefill": "failed"})
    assert routed.record.prefill_result is None
    assert fixture.director.prefill_outliers._streaks == {}


async def test_leases_hear_of_a_prefill_that_failed_before_the_answer() -> None:
    fixture = Staged(p1="prefill", d1="decode")
    await fixture.prefill("failed")
    await fixture.prefill("ok")
    told = [word for word in fixture.known.told if not word.startswith("decided")]
    assert told == ["prefill failed", "responded 200", "ended", "responded 200", "ended"]
