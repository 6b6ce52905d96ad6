"""Data-parallel ranks behind the first one's port: a header says which of them is meant."""

from __future__ import annotations

import msgspec

from router.extproc import headers as names
from router.scheduling.types import Decision


def through_port(decision: Decision, port: int) -> Decision:
    """Send the request to `port` of the picked hosts, and name the endpoint that was picked."""
    return msgspec.structs.replace(
        decision,
        destinations=tuple(_at_port(t.address, port) for t in decision.primary.targets),
        headers={**decision.headers, names.DATA_PARALLEL: decision.endpoint.address},
    )


def _at_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"
