from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, SessionId
from router.scheduling import affinity
from router.scheduling.affinity import Affinity, AffinityParameters, BoundSessions
from router.scheduling.types import Decision, Dropped, Outcome
from tests.support import make

A, B = make.endpoint("10.0.0.1:8000", name="a"), make.endpoint("10.0.0.2:8000", name="b", rank=1)
RANKED = make.endpoint("10.0.0.3:8000", name="c-rank-2", namespace="ns", rank=2)
ALL = [A, B, RANKED]


def made(**parameters: Any) -> Affinity:
    return msgspec.convert(parameters, AffinityParameters).affinity()


def bound(*sources: dict[str, str], **parameters: Any) -> BoundSessions:
    config = {"sources": [*sources], **parameters.pop("config", {})}
    made_ = made(strategy="session_id", sessionIdConfig=config, **parameters)
    assert isinstance(made_, BoundSessions)
    return made_


def token(text: str) -> str:
    return b64encode(text.encode()).decode()


def outcome(target: Endpoint, *others: Endpoint, dropped: tuple[Endpoint, ...] = ()) -> Outcome:
    totals = {e.address: 0.0 for e in (target, *others)}
    gone = Dropped("busy", tuple(e.address for e in dropped))
    return Outcome("default", (target,), totals, {}, (gone,))


# -- the client carries it ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [(A, "default/a-rank-0"), (B, "default/b-rank-1"), (RANKED, "ns/c-rank-2")],
    ids=["no-rank", "rank", "rank-in-the-name"],
)
def test_the_client_is_told_a_token_that_leads_back(endpoint: Endpoint, text: str) -> None:
    carried = made()
    told = carried.amended(make.decision(endpoint)).response_headers
    assert told == {"x-session-token": token(text)}
    request = make.request(headers=told)
    assert carried.find(request, ALL, Facts()) is endpoint
    others = [e for e in ALL if e is not endpoint]
    assert carried.find(request, others, Facts()) is None


@pytest.mark.parametrize("sent", ["", "!", "AAA", token(""), token("default/x"), "ä", "/w=="])
def test_a_token_that_means_nothing_is_no_session(sent: str) -> None:
    request = make.request(headers={"x-session-token": sent})
    assert made().find(request, ALL, Facts()) is None


def test_a_token_may_name_the_endpoint_without_its_rank() -> None:
    request = make.request(headers={"x-session-token": token("default/b")})
    assert made().find(request, ALL, Facts()) is B


def test_the_header_and_the_profile_can_be_others() -> None:
    carried = made(
        profileName="prefill", encodedEndpointHeaderConfig={"header": "X-Session-Token-Prefill"}
    )
    decision = Decision(
        make.outcome(A), make.outcome(B, profile="prefill"), response_headers={"x-other": "1"}
    )
    assert carried.amended(decision).response_headers == {
        "x-other": "1",
        "x-session-token-prefill": token("default/b-rank-1"),
    }
    assert carried.amended(make.decision(A)).response_headers == {}


# -- the router remembers it --------------------------------------------------------------------


def request(session: str = "s1", header: str = "x-session-id") -> Any:
    return make.request(headers={header: session})


def at(now: float) -> Facts:
    return Facts(now=now)


def test_a_session_stays_where_it_was_sent_first() -> None:
    sessions = bound()
    assert sessions.find(request(), ALL, at(0)) is None
    sessions.decided(request(), at(0), Decision(outcome(A, B)))
    assert sessions.find(request(), ALL, at(1)) is A
    assert sessions.find(request("s2"), ALL, at(1)) is None
    sessions.decided(request(), at(2), Decision(outcome(B, A)))
    assert sessions.find(request(), ALL, at(3)) is A
    assert sessions.amended(make.decision(A)) == make.decision(A)


@pytest.mark.parametrize(
    ("decision", "now_at"),
    [
        pytest.param(Decision(outcome(B)), B, id="gone"),
        pytest.param(Decision(outcome(B, A)), A, id="another-was-picked"),
        pytest.param(Decision(outcome(B, dropped=(A,))), A, id="left-out-for-once"),
        pytest.param(
            Decision(outcome(B), left_out=(Dropped("served-models", (A.address,)),)),
            A,
            id="left-out-for-the-model",
        ),
    ],
)
def test_a_session_is_bound_again_only_when_its_endpoint_is_gone(
    decision: Decision, now_at: Endpoint
) -> None:
    sessions = bound()
    sessions.decided(request(), at(0), Decision(outcome(A, B)))
    sessions.decided(request(), at(1), decision)
    assert sessions.find(request(), ALL, at(2)) is now_at


def test_a_session_that_is_not_used_is_forgotten() -> None:
    sessions = bound(config={"evictionTtlSeconds": 10})
    sessions.decided(request(), at(0), Decision(outcome(A)))
    sessions.decided(request(), at(8), Decision(outcome(A)))
    sessions.decided(request("s2"), at(9), Decision(outcome(B)))
    assert sessions.find(request(), ALL, at(18)) is A
    assert sessions.find(request(), ALL, at(18.5)) is None
    sessions.decided(request("s3"), at(18.5), Decision(outcome(B)))
    assert len(sessions) == 2


def test_no_more_sessions_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(affinity, "MAX_SESSIONS", 3)
    sessions = bound()
    for i in range(5):
        sessions.decided(request(f"s{i}"), at(i), Decision(outcome(A)))
    assert len(sessions) == 3
    assert sessions.find(request("s1"), ALL, at(5)) is None
    assert sessions.find(request("s2"), ALL, at(5)) is A


def test_a_request_without_a_session_is_not_remembered() -> None:
    sessions = bound()
    sessions.decided(make.request(), at(0), Decision(outcome(A)))
    sessions.decided(request("  "), at(0), Decision(outcome(A)))
    assert len(sessions) == 0
    assert sessions.find(make.request(), ALL, at(0)) is None


def test_the_first_source_that_has_an_id_counts() -> None:
    sources = ({"header": "X-User"}, {"attribute": "user", "producer": "mine"})
    sessions = bound(*sources, {"attribute": "agent-identity"})
    assert sessions.needs() == ((SessionId, "mine"), (SessionId, "agent-identity"))
    facts = at(0)
    facts.put(SessionId("s1"), "mine")
    facts.put(SessionId("s2"), "agent-identity")
    sessions.decided(make.request(), facts, Decision(outcome(A)))
    sessions.decided(request("s2", "x-user"), facts, Decision(outcome(B)))
    assert sessions.find(request("s1", "x-user"), ALL, at(0)) is A
    only_agent = at(0)
    only_agent.put(SessionId("s2"), "agent-identity")
    assert sessions.find(make.request(), ALL, only_agent) is B


def test_the_session_s_endpoint_can_be_that_of_another_profile() -> None:
    sessions = bound(profileName="prefill")
    sessions.decided(request(), at(0), Decision(outcome(A)))
    assert len(sessions) == 0
    split = Decision(outcome(A), make.outcome(B, profile="prefill"))
    sessions.decided(request(), at(0), split)
    assert sessions.find(request(), ALL, at(1)) is B


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"strategy": "cookie"}, "strategy"),
        ({"sessionIdConfig": {"sources": [{}]}}, "exactly one of header and attribute"),
        (
            {"sessionIdConfig": {"sources": [{"header": "a", "attribute": "b"}]}},
            "exactly one of header and attribute",
        ),
        ({"sessionIdConfig": {"sources": [{"header": "a", "producer": "b"}]}}, "producer"),
        ({"sessionIdConfig": {"evictionTtlSeconds": 0}}, "evictionTtlSeconds"),
        ({"encodedEndpointHeaderConfig": {"header": "a b"}}, "encodedEndpointHeaderConfig.header"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(given, AffinityParameters)
