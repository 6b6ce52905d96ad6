"""An endpoints file becomes endpoints, and warnings for the entries that make no sense."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.discovery.file import MAX_FILE_BYTES, DiscoveryError, Listing, locate, parse
from router.pool.endpoint import Endpoint, KvEvents

YAML = b"""
endpoints:
- name: vllm-a
  address: 10.0.0.1
  port: "8000"
- name: vllm-b-rank-3
  namespace: prod
  address: "[2001:DB8::0:1]"
  port: 8001
  labels: {llm-d.ai/role: decode}
  kvEvents: {endpoint: "tcp://10.0.0.2:5560", replay: "tcp://10.0.0.2:5660"}
objectives: {batch: -1}
modelRewrites:
- targets: [{modelRewrite: tiny}]
"""


def entry(**keys: object) -> dict[str, object]:
    return {"name": "a", "address": "10.0.0.1", "port": 8000, **keys}


def listing(*entries: dict[str, object]) -> Listing:
    return parse(json.dumps({"endpoints": entries}).encode(), "f.yaml")


def located(
    *entries: dict[str, object], **addresses: str
) -> tuple[tuple[Endpoint, ...], tuple[str, ...]]:
    """The endpoints, and the warnings of both steps."""
    read = listing(*entries)
    known = {host: {address: ""} for host, address in addresses.items()}
    endpoints, warnings = locate(read.entries, known)
    return endpoints, read.warnings + warnings


def test_a_file_becomes_endpoints_objectives_and_rewrites() -> None:
    read = parse(YAML, "f.yaml")
    endpoints, warnings = locate(read.entries, {})
    assert endpoints == (
        Endpoint(name="vllm-a", host="10.0.0.1", address="10.0.0.1:8000"),
        Endpoint(
            name="vllm-b-rank-3",
            namespace="prod",
            host="2001:db8::1",
            address="[2001:db8::1]:8001",
            labels={"llm-d.ai/role": "decode"},
            rank=3,
            kv_events=(
                KvEvents(endpoint="tcp://10.0.0.2:5560", replay="tcp://10.0.0.2:5660", rank=3),
            ),
        ),
    )
    assert read.objectives == {"batch": -1}
    assert read.model_rewrites[0].targets[0].model_rewrite == "tiny"
    assert (read.warnings, warnings) == ((), ())


@pytest.mark.parametrize("indent", [None, 2, "\t"], ids=["one line", "spaces", "tabs"])
def test_json_is_read_however_it_is_indented(indent: int | str | None) -> None:
    text = json.dumps({"endpoints": [entry()]}, indent=indent)
    assert [e.host for e in parse(text.encode(), "f.json").entries] == ["10.0.0.1"]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1:8000"),
        ("::1", "[::1]:8000"),
        ("[::1]", "[::1]:8000"),
        ("FE80:0::5", "[fe80::5]:8000"),
        ("vllm_0.engines.svc", "192.0.2.7:8000"),
        ("VLLM_0.engines.svc", "192.0.2.7:8000"),
        ("localhost", "[::1]:8000"),
    ],
)
def test_addresses_are_ip_addresses_or_hostnames(address: str, expected: str) -> None:
    known = {"vllm_0.engines.svc": {"192.0.2.7": ""}, "localhost": {"::1": ""}}
    endpoints, warnings = locate(listing(entry(address=address)).entries, known)
    assert ([e.address for e in endpoints], warnings) == ([expected], ())


def test_only_hostnames_need_resolving() -> None:
    read = listing(entry(), entry(name="b", address="host-b"), entry(name="c", address="::1"))
    assert read.hostnames() == {"host-b"}


@pytest.mark.parametrize("port", [0, 70000, -1, "0", "65536", "http", "", "80 00", "٨٠", "0x50"])
def test_an_endpoint_with_an_impossible_port_is_left_out_and_named(port: object) -> None:
    endpoints, warnings = located(entry(), entry(name="bad", port=port))
    assert [e.name for e in endpoints] == ["a"]
    assert [w.startswith("$.endpoints[1].port: bad ") for w in warnings] == [True]


@pytest.mark.parametrize(
    "address",
    ["", "10.0.0", "10.0.0.256", "10.0.0.1:8000", "a b", "-a", "a..b", "[::1", "fe80::1%eth0", "1"],
)
def test_an_endpoint_with_an_impossible_address_is_left_out_and_named(address: str) -> None:
    endpoints, warnings = located(entry(), entry(name="bad", address=address))
    assert [e.name for e in endpoints] == ["a"]
    assert [w.startswith("$.endpoints[1].address: bad ") for w in warnings] == [True]


def test_a_hostname_that_does_not_resolve_is_left_out_and_named() -> None:
    endpoints, warnings = located(entry(), entry(name="b", address="nowhere"))
    assert [e.name for e in endpoints] == ["a"]
    assert warnings == ("$.endpoints[1]: left out: nowhere does not resolve",)


def test_of_two_entries_with_one_name_the_last_stays() -> None:
    endpoints, warnings = located(
        entry(port=1), entry(name="b", port=2), entry(port=3), entry(namespace="x", port=4)
    )
    assert [e.address for e in endpoints] == ["10.0.0.1:3", "10.0.0.1:2", "10.0.0.1:4"]
    assert warnings == ("$.endpoints[0]: left out: $.endpoints[2] is default/a, too",)


def test_of_two_entries_on_one_address_the_first_stays() -> None:
    endpoints, warnings = located(entry(), entry(name="b", address="other"), other="10.0.0.1")
    assert [e.name for e in endpoints] == ["a"]
    assert warnings == ("$.endpoints[1]: left out: a has the same address, 10.0.0.1:8000",)


def test_several_engines_on_one_ip_are_told_apart_by_their_ports() -> None:
    endpoints, _ = located(entry(), entry(name="b", port=8001), entry(name="c", port="8002"))
    assert [e.address for e in endpoints] == ["10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.1:8002"]


@pytest.mark.parametrize(
    ("keys", "rank"),
    [({}, 0), ({"name": "x-rank-2"}, 2), ({"name": "x-rank-2", "rank": 5}, 5)],
    ids=["neither", "name", "explicit"],
)
def test_the_rank_is_explicit_or_in_the_name_or_zero(keys: dict[str, object], rank: int) -> None:
    source = {"endpoint": "tcp://10.0.0.1:5557"}
    [endpoint], _ = located(entry(**keys, kvEvents=source))
    assert endpoint.rank == rank
    assert [events.rank for events in endpoint.kv_events] == [rank]


def test_ranks_behind_one_port_each_have_their_own_events() -> None:
    sources = [
        {"endpoint": "tcp://10.0.0.1:5557"},
        {"rank": 1, "endpoint": "tcp://10.0.0.1:5558", "replay": "ipc:///run/replay"},
    ]
    [endpoint], _ = located(entry(kvEvents=sources))
    assert endpoint.kv_events == (
        KvEvents(endpoint="tcp://10.0.0.1:5557", rank=0),
        KvEvents(endpoint="tcp://10.0.0.1:5558", replay="ipc:///run/replay", rank=1),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"endpoints: [", "line 2"),
        (b"endpoints:\n\t- name: a", "line 2"),
        (b'{"endpoints": [', "line 2"),
        (b"\xff\xfe\x00", "f.yaml"),
        (b"{}", "missing required field `endpoints`"),
        (b"endpoints: []\nendpoints: []", "key 'endpoints' stands twice"),
        (b"endpoints: !!map [1]", "expected a mapping node"),
        (b"endpoints: [{name: a, address: h, port: 1, prot: 2}]", "$.endpoints[0]"),
        (
            b"endpoints: [{name: a, address: h, port: 1, kvEvents:"
            b" [{endpoint: 'tcp://h:1'}, {rank: 0, endpoint: 'tcp://h:2'}]}]",
            "rank 0 stands twice - at `$.endpoints[0].kvEvents`",
        ),
        (b"[" * 500_000 + b"]" * 500_000, "nested too deeply"),
        (b"#" * (MAX_FILE_BYTES + 1), "larger than"),
    ],
    ids=[
        *["empty", "cut short", "tab", "JSON cut short", "not UTF-8", "no endpoints", "key twice"],
        *["wrong tag", "unknown key", "rank twice", "deeply nested", "too large"],
    ],
)
def test_a_file_that_cannot_be_understood_is_refused_with_its_path(
    text: bytes, message: str
) -> None:
    with pytest.raises(DiscoveryError) as caught:
        parse(text, "f.yaml")
    assert str(caught.value).startswith("f.yaml: ")
    assert message in str(caught.value)


_entries = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "address": st.sampled_from(["10.0.0.1", "10.0.0.2", "::1", "host", "bad host", "1"]),
        "port": st.sampled_from([0, 1, 8000, "8000", "x"]),
    }
)


@given(st.lists(_entries, max_size=8))
def test_every_entry_is_an_endpoint_or_a_warning_and_addresses_are_unique(
    entries: list[dict[str, object]],
) -> None:
    endpoints, warnings = located(*entries, host="10.0.0.1")
    assert len(endpoints) + len(warnings) == len(entries)
    assert len({e.address for e in endpoints}) == len(endpoints)
    assert len({e.name for e in endpoints}) == len(endpoints)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_text_raises_anything_but_a_discovery_error(text: bytes) -> None:
    try:
        read = parse(text, "f.yaml")
    except DiscoveryError:
        return
    assert msgspec.json.encode(read)


def test_each_address_of_a_hostname_is_an_endpoint_with_its_own_events() -> None:
    events = {"endpoint": "tcp://engines:5557", "replay": "tcp://elsewhere:5657"}
    known = {"engines": {"10.0.0.1": "", "::2": "-::2"}}
    endpoints, warnings = locate(listing(entry(address="engines", kvEvents=events)).entries, known)
    assert warnings == ()
    assert [(e.name, e.address, e.kv_events[0].endpoint) for e in endpoints] == [
        ("a", "10.0.0.1:8000", "tcp://10.0.0.1:5557"),
        ("a-::2", "[::2]:8000", "tcp://[::2]:5557"),
    ]
    assert {e.kv_events[0].replay for e in endpoints} == {"tcp://elsewhere:5657"}


def test_one_stream_of_events_is_not_credited_to_every_address_of_a_hostname() -> None:
    events = {"endpoint": "tcp://10.0.0.9:5557"}
    entries = listing(entry(address="engines", kvEvents=events)).entries
    one, warnings = locate(entries, {"engines": {"10.0.0.1": ""}})
    assert (one[0].kv_events[0].endpoint, warnings) == ("tcp://10.0.0.9:5557", ())
    many, warnings = locate(entries, {"engines": {"10.0.0.1": "", "10.0.0.2": "-10.0.0.2"}})
    assert [e.kv_events for e in many] == [(), ()]
    assert warnings == (
        "$.endpoints[0].kvEvents: left out: one stream is not that of 2 engines;"
        " name its host engines, too",
    )


def test_entries_may_share_what_they_merge() -> None:
    text = b"""
endpoints:
  - &one {name: a, address: 10.0.0.1, port: 8000, labels: {llm-d.ai/role: decode}}
  - {<<: *one, name: b, address: 10.0.0.2}
"""
    first, second = (entry.endpoint for entry in parse(text, "e.yaml").entries)
    assert (first.name, second.name, second.role) == ("a", "b", first.role)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"endpoint: []", "unknown field `endpoint`; did you mean 'endpoints'?"),
        (
            b"endpoints: [{name: a, adress: h, port: 1}]",
            "unknown field `adress`; did you mean 'address'? - at `$.endpoints[0]`",
        ),
        (
            b"endpoints: [{name: a, address: h, port: 1, kvEvents: {endpoint: 'h:5557'}}]",
            "expected text such as 'tcp://10.0.0.1:5557' - at `$.endpoints[0].kvEvents.endpoint`",
        ),
    ],
)
def test_what_was_probably_meant_is_told(text: bytes, said: str) -> None:
    with pytest.raises(DiscoveryError) as refused:
        parse(text, "f.yaml")
    assert said in str(refused.value)


def test_fields_without_a_value_are_left_out() -> None:
    (made,) = parse(b"endpoints: [{name: a, address: h, port: 1, labels: , rank: }]", "f").entries
    assert (made.endpoint.labels, made.endpoint.rank) == ({}, 0)


def test_a_role_that_no_filter_keeps_is_named_and_the_endpoint_stays() -> None:
    labels = {"llm-d.ai/role": "decoder"}
    (endpoint,), (warning,) = located(entry(labels=labels))
    assert endpoint.role == "decoder"
    said = "$.endpoints[0].labels: no filter keeps the role 'decoder'; did you mean 'decode'?"
    assert warning == said
