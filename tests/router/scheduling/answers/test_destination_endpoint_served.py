from __future__ import annotations

from router.scheduling.answers.destination_endpoint_served import (
    HEADER,
    DestinationEndpointServedVerifier,
)


def test_the_client_learns_who_answered_where_that_is_known() -> None:
    plugin = DestinationEndpointServedVerifier()
    assert plugin.answer_headers("10.0.0.1:3000") == {HEADER: "10.0.0.1:3000"}
    assert plugin.answer_headers("") == {}
