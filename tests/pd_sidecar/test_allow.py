from __future__ import annotations

import pytest

from pd_sidecar.allow import AllowList, ListingError, listed, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1:8000", ("10.0.0.1", 8000)),
        (" P.Example:80 ", ("p.example", 80)),
        ("[::0001]:8000", ("::1", 8000)),
        ("::1:8000", None),
        ("10.0.0.1", None),
        ("10.0.0.1:0", None),
        ("10.0.0.1:70000", None),
        ("10.0.0.1:x", None),
        ("[10.0.0.1]:80", None),
        (":80", None),
        ("", None),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


FILE = b"""
endpoints:
  - {name: p, address: 10.0.0.1, port: 8000, labels: {llm-d.ai/role: prefill}}
  - {name: e, address: "::1", port: "8001", labels: {llm-d.ai/role: encode}}
  - {name: b, address: both.example, port: 8002, labels: {llm-d.ai/role: both}}
  - {name: d, address: 10.0.0.2, port: 8000, labels: {llm-d.ai/role: decode}}
  - {name: n, address: 10.0.0.3, port: 8000}
  - {name: x, address: 10.0.0.4, port: none, labels: {llm-d.ai/role: prefill}}
objectives: {}
"""


def test_engines_that_prefill_or_encode_are_listed() -> None:
    assert listed(FILE) == {("10.0.0.1", 8000), ("::1", 8001), ("both.example", 8002)}


@pytest.mark.parametrize("text", [b"", b"endpoints: 3", b"{", b"endpoints: [{port: 1}]"])
def test_a_file_that_makes_no_sense_is_refused(text: bytes) -> None:
    with pytest.raises(ListingError):
        listed(text)


def test_only_what_is_given_listed_or_resolved_may_be_called() -> None:
    allow = AllowList([("given.example", 1)])
    allow.list(listed(FILE))
    assert allow.allows(("given.example", 1))
    assert allow.allows(("10.0.0.1", 8000))
    assert not allow.allows(("10.0.0.1", 8001))
    assert not allow.allows(("10.1.1.1", 8002))
    allow.resolve({"both.example": ["10.1.1.1"], "given.example": ["10.1.1.2"]})
    assert allow.allows(("10.1.1.1", 8002))
    assert allow.allows(("10.1.1.2", 1))
    allow.list(frozenset())
    allow.resolve({})
    assert not allow.allows(("10.0.0.1", 8000))
    assert not allow.allows(("10.1.1.1", 8002))


def test_an_open_list_lets_any_pass() -> None:
    assert AllowList(everything=True).allows(("10.0.0.1", 1))
