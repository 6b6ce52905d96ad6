from __future__ import annotations

import pytest

from router.producers.agent_identity import AgentIdentity, AgentIdentityParameters
from router.producers.facts import Facts, FairnessId, SessionId
from tests.support import make


async def facts(headers: dict[str, str], *additional: str) -> Facts:
    producer = AgentIdentity("agents", AgentIdentityParameters([*additional]))
    known = Facts()
    await producer.produce(make.request(headers=headers), (), known)
    assert producer.decided(make.request(), known, make.decision("a")) is None
    return known


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ({"x-claude-code-session-id": "1", "session_id": "4"}, "1"),
        ({"x-session-affinity": "2", "session-id": "3"}, "2"),
        ({"session-id": "3", "session_id": "4"}, "3"),
        ({"session_id": " 4 "}, "4"),
        ({"x-claude-code-session-id": " ", "session-id": "3"}, "3"),
        ({"x-mine": "0", "x-claude-code-session-id": "1"}, "0"),
    ],
)
async def test_an_agent_s_session_is_its_session_and_its_account(
    headers: dict[str, str], session: str
) -> None:
    known = await facts(headers, "X-Mine")
    assert known.get(SessionId, "agents") == SessionId(session)
    assert known.get(FairnessId, "agents") == FairnessId(session)


async def test_a_request_of_no_agent_has_neither() -> None:
    known = await facts({"user-agent": "curl"})
    assert known.get(SessionId) is None
    assert known.get(FairnessId) is None
