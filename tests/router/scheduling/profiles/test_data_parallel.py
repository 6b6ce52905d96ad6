from __future__ import annotations

import random

from router.producers.facts import Facts
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.profiles.data_parallel import DataParallelProfileHandler
from router.scheduling.types import NamedScorer, Profile
from tests.router.scheduling.profiles.stage_pool import FirstName
from tests.support import make

PROFILE = Profile(
    "default", (), (NamedScorer("first", FirstName()),), MaxScorePicker(max_num_of_endpoints=2)
)


def test_the_first_port_is_the_destination_and_a_header_names_the_rank() -> None:
    endpoints = [make.endpoint("10.0.0.1:8003"), make.endpoint("[::1]:8001")]
    decision = DataParallelProfileHandler(primary_port=8000).decide(
        make.request(), {"default": PROFILE}, endpoints, Facts(), random.Random(0)
    )
    assert decision.endpoint.address == "10.0.0.1:8003"
    assert decision.addresses == ("10.0.0.1:8000", "[::1]:8000")
    assert decision.headers == {"x-data-parallel-host-port": "10.0.0.1:8003"}
