"""CPU time of processes."""

from __future__ import annotations

import os
import time

import pytest

from bench.cpu import Usage, cpu_s, parse_stat

STAT = (
    "4711 ({name}) S 1 4711 4711 0 -1 4194560 5000 0 12 0 "
    "250 70 3 4 20 0 9 0 1000 200000000 9000 18446744073709551615 1 1 0 0 0 0 0 16781312 17642 0 0"
)


@pytest.mark.parametrize("name", ["python", "a b", "a) S 1 (b", "((", "))"])
def test_user_and_system_time_are_found_behind_any_name(name: str) -> None:
    assert parse_stat(STAT.format(name=name)) == 320


def test_the_time_of_a_process_is_what_it_says_itself() -> None:
    deadline = time.process_time() + 0.1
    while time.process_time() < deadline:
        pass
    assert cpu_s(os.getpid()) == pytest.approx(time.process_time(), abs=0.05)


def test_usage_counts_from_where_it_began() -> None:
    usage = Usage({"me": os.getpid()})
    deadline = time.process_time() + 0.1
    while time.process_time() < deadline:
        pass
    assert usage.used_s()["me"] == pytest.approx(0.1, abs=0.05)
