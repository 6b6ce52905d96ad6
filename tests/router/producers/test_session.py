from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.producers.facts import Facts, SessionId
from router.producers.session import SessionIdParameters, SessionIds
from tests.support import make


async def session(headers: dict[str, str], **parameters: Any) -> SessionId | None:
    producer = SessionIds("sessions", msgspec.convert(parameters, SessionIdParameters))
    facts = Facts()
    await producer.produce(make.request(headers=headers), (), facts)
    assert producer.decided(make.request(), facts, make.decision("a")) is None
    return facts.get(SessionId, "sessions")


@pytest.mark.parametrize(
    ("headers", "value"),
    [({"x-user": " u1 "}, SessionId("u1")), ({"x-user": "  "}, None), ({"x-other": "u"}, None)],
)
async def test_a_header_names_the_session(headers: dict[str, str], value: SessionId | None) -> None:
    assert await session(headers, headerName="X-User") == value


@pytest.mark.parametrize(
    ("cookie", "value"),
    [
        ("sid=abc", SessionId("abc")),
        ("a=1; sid=x=y ; b=2", SessionId("x=y")),
        ('sid="quoted"', SessionId("quoted")),
        ("sid=first; sid=second", SessionId("first")),
        ("SID=abc; xsid=1", None),
        ("sid", None),
        ("sid=", None),
        ("", None),
    ],
)
async def test_a_cookie_names_the_session(cookie: str, value: SessionId | None) -> None:
    assert await session({"cookie": cookie}, cookieName="sid") == value


@pytest.mark.parametrize("parameters", [{}, {"headerName": "a", "cookieName": "b"}])
def test_exactly_one_place_is_named(parameters: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError, match="exactly one of headerName and cookieName"):
        msgspec.convert(parameters, SessionIdParameters)


@given(header=st.text(), place=st.sampled_from([{"headerName": "cookie"}, {"cookieName": "sid"}]))
async def test_a_session_is_a_part_of_what_the_client_sent(
    header: str, place: dict[str, str]
) -> None:
    found = await session({"cookie": f"a=1; sid={header}"}, **place)
    if found is not None:
        assert found.value
        assert found.value in f"a=1; sid={header}"
