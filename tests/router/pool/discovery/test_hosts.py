from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.pool.discovery.hosts import Named, renewed

ADDRESSES = st.lists(st.sampled_from([f"10.0.0.{i}" for i in range(6)]), unique=True)


def test_the_first_address_has_the_plain_name() -> None:
    assert renewed({}, ["10.0.0.1", "10.0.0.2"]) == {"10.0.0.1": "", "10.0.0.2": "-10.0.0.2"}


def test_ipv6_counts_where_there_is_nothing_else() -> None:
    assert renewed({}, ["::1", "10.0.0.1"]) == {"10.0.0.1": ""}
    assert renewed({}, ["::1", "::2"]) == {"::1": "", "::2": "-::2"}


def test_a_hostname_that_moves_keeps_its_name() -> None:
    assert renewed({"10.0.0.1": ""}, ["10.0.0.2"]) == {"10.0.0.2": ""}


@given(st.lists(ADDRESSES, max_size=8))
def test_names_are_unique_and_no_address_is_renamed(answers: list[list[str]]) -> None:
    named: Named = {}
    for found in answers:
        now = renewed(named, found)
        assert set(now) == (set(found) or set(named))
        assert len(set(now.values())) == len(now)
        assert all(now[a] == suffix for a, suffix in named.items() if a in now)
        named = now
