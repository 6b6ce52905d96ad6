from __future__ import annotations

from router.producers.facts import Facts
from router.producers.unseen import UnseenRequests
from tests.support import make


def test_counts_what_was_sent_after_a_scrape_and_has_not_ended() -> None:
    unseen = UnseenRequests()
    leases = [
        unseen.decided(make.request(), Facts(now=at), make.decision("a")) for at in (1.0, 2.0, 3.0)
    ]
    sent = unseen.fact()
    assert [sent.count("a", since) for since in (0.0, 1.0, 1.5, 2.5, 3.5)] == [3, 3, 2, 1, 0]
    assert sent.count("b", 0.0) == 0
    leases[2].responded(200)
    leases[1].ended()
    assert [sent.count("a", since) for since in (0.0, 1.5)] == [2, 1]
    leases[0].ended()
    leases[2].ended()
    assert sent.sent == {}


def test_a_request_that_another_endpoint_answers_counts_there() -> None:
    unseen = UnseenRequests()
    lease = unseen.decided(make.request(), Facts(now=5.0), make.decision("a"))
    lease.served_by("b")
    assert [unseen.fact().count(address, 0.0) for address in "ab"] == [0, 1]
    lease.ended()
    assert unseen.fact().sent == {}
