"""destination-endpoint-served-verifier: tell the client who answered (conformance)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

HEADER = "x-conformance-test-served-endpoint"
"""Of the Gateway API's conformance tests."""


class DestinationEndpointServedVerifier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def answer_headers(self, served: str) -> Mapping[str, str]:
        return {HEADER: served} if served else {}
