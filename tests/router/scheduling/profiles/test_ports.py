from __future__ import annotations

from router.scheduling.profiles.ports import through_port
from router.scheduling.types import Decision
from tests.support import make


def test_every_pick_is_reached_at_the_port_and_other_headers_stay() -> None:
    picks = make.outcome("10.0.0.1:8003", "[::1]:8001")
    decision = through_port(Decision(picks, headers={"x-prefiller-host-port": "p:1"}), 8000)
    assert decision.addresses == ("10.0.0.1:8000", "[::1]:8000")
    assert decision.endpoint.address == "10.0.0.1:8003"
    assert decision.headers == {
        "x-prefiller-host-port": "p:1",
        "x-data-parallel-host-port": "10.0.0.1:8003",
    }
