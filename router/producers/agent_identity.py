"""agent-identity: which agent's session a request belongs to, from headers that agents send.

Its session is also on whose account the request goes, unless a header says that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, FairnessId, SessionId
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision

SESSION_HEADERS = ("x-claude-code-session-id", "x-session-affinity", "session-id", "session_id")
"""Of Claude Code, OpenCode, Codex and older Codex, in the order in which they are asked."""


class AgentIdentityParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        additional_session_headers: Asked before those that agents are known to send.
    """

    additional_session_headers: list[str] = []


class AgentIdentity:
    """States SessionId and FairnessId where a request comes from an agent."""

    def __init__(self, name: str, parameters: AgentIdentityParameters) -> None:
        self.name = name
        added = (header.lower() for header in parameters.additional_session_headers)
        self._headers = (*added, *SESSION_HEADERS)

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        values = (request.headers.get(header, "").strip() for header in self._headers)
        session = next((value for value in values if value), "")
        if session:
            facts.put(SessionId(session), self.name)
            facts.put(FairnessId(session), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        return None
