from __future__ import annotations

from pd_sidecar.headers import to_client, to_engine

GIVEN = [
    ("Host", "h"),
    ("Connection", "keep-alive, X-Own"),
    ("X-Own", "1"),
    ("X-Prefiller-Host-Port", "p:1"),
    ("Content-Length", "3"),
    ("Content-Encoding", "gzip"),
    ("Set-Cookie", "a"),
    ("Set-Cookie", "b"),
]


def test_an_engine_gets_what_concerns_it() -> None:
    assert list(to_engine(GIVEN, same_body=True)) == GIVEN[4:]
    assert list(to_engine(GIVEN, same_body=False)) == GIVEN[6:]


def test_a_client_gets_what_concerns_it() -> None:
    given = [("X-Warmroute-Prefill", "ok"), ("Transfer-Encoding", "chunked"), *GIVEN[4:]]
    assert list(to_client(given, same_body=True)) == GIVEN[4:]
    assert list(to_client(given, same_body=False)) == GIVEN[5:]
