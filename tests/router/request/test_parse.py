from __future__ import annotations

import contextlib
import gzip
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest, BodyTooLarge
from router.request.ids import MAX_LISTS
from router.request.parse import APIS, Limits, api_of, parse
from router.request.types import Kind, Request

COMPLETION = {":method": "POST", ":path": "/v1/completions", "content-type": "application/json"}
CHAT = {**COMPLETION, ":path": "/v1/chat/completions"}


def completion(**body: Any) -> Request:
    return parse(COMPLETION, msgspec.json.encode(body), "r1")


def ids(*tokens: int) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/completions", Kind.COMPLETION),
        ("/v1/chat/completions", Kind.CHAT),
        ("/v1/chat/completions?api-version=1", Kind.CHAT),
        ("/v1/chat/completions/", Kind.CHAT),
        ("/openai/v1/chat/completions", Kind.CHAT),
        ("/v1/foochat/completions", Kind.COMPLETION),
        ("/v1/mycompletions", Kind.OTHER),
        ("/v1/chat/%63ompletions", Kind.CHAT),
        ("/v1/chat/completions/render", "render"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/images/generations", "images"),
        ("/v1/conversations", "conversations"),
        ("/v1/responses", "responses"),
        ("/v1/responses/r_1/cancel", Kind.OTHER),
        ("/v1/messages", "messages"),
        ("/anthropic/v1/messages?beta=true", "messages"),
        ("/v1/messages/count_tokens", "count_tokens"),
        ("/inference/v1/generate", "generate"),
        ("/generate", "generate"),
        ("/invocations", "invocation"),
        ("/anthropic/v1/messages", "messages"),
        ("/v1/threads/thread_1/messages", Kind.OTHER),
        ("/v1/audio/transcriptions", Kind.OTHER),
        ("/anything", Kind.OTHER),
        ("", Kind.OTHER),
    ],
)
def test_the_path_tells_the_api(path: str, kind: str) -> None:
    assert api_of({**COMPLETION, ":path": path}) == kind


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"content-type": "application/json; charset=utf-8"}, Kind.CHAT),
        ({"content-type": ""}, Kind.CHAT),
        ({"content-type": "multipart/form-data; boundary=x"}, Kind.OTHER),
        ({"content-type": "text/plain"}, Kind.OTHER),
        ({"content-type": "Application/JSON ; charset=utf-16"}, Kind.CHAT),
        ({"content-type": "application/vnd.x+json"}, Kind.CHAT),
        ({"content-encoding": "identity"}, Kind.CHAT),
        ({"content-encoding": "GZIP"}, Kind.CHAT),
        ({"content-encoding": "br"}, Kind.OTHER),
        ({"content-encoding": "gzip, deflate"}, Kind.OTHER),
        ({":method": "GET"}, Kind.OTHER),
    ],
    ids=str,
)
def test_what_is_not_plain_json_goes_by_load(headers: dict[str, str], kind: Kind) -> None:
    assert api_of({**CHAT, **headers}) == kind


@pytest.mark.parametrize(
    ("prompt", "token_ids", "known"),
    [
        ("abc", None, True),
        (["abc", "def"], None, True),
        ([1, 2, 3], ids(1, 2, 3), True),
        ([[1, 2, 3], [4, 5, 6]], ids(1, 2, 3), True),
        ("", None, False),
        ([], None, False),
        ([""], None, False),
        ([[]], b"", False),
        ([2**31 - 1], ids(2**31 - 1), True),
    ],
    ids=str,
)
def test_every_legal_prompt_is_read(prompt: Any, token_ids: bytes | None, known: bool) -> None:
    request = completion(model="m", prompt=prompt)
    assert (request.token_ids, request.prompt_known) == (token_ids, known)


@pytest.mark.parametrize(
    "prompt",
    [None, 42, [1, "a"], ["a", [7]], [-1], [2**31], [[1], [-1]], [1.5], {"a": 1}, [None]],
    ids=str,
)
def test_an_impossible_prompt_is_a_bad_request(prompt: Any) -> None:
    with pytest.raises(BadRequest, match="prompt"):
        completion(model="m", prompt=prompt)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"prompt": "\xff"}',
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "\\udc00\\ud800"}',
        b'{"prompt": "a", "user": "\\ud800"}',
        b'{"prompt": "a", "user": "\xff"}',
        b'{"prompt": "a", "user": "\xed\xa0\x80"}',
        b'{"prompt": "\xc3\xa9", "x": {"\xc0\x80": 1}}',
        b'{"prompt": "a", "model": 3}',
        b'{"prompt": "a", "stream": "yes"}',
        b'{"prompt": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_broken_body_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(COMPLETION, body, "r1")


@pytest.mark.parametrize(
    "messages",
    [[], None, ["x"], [{"content": "no role"}], [{"role": "user", "content": 3}]],
    ids=str,
)
def test_an_impossible_chat_is_a_bad_request(messages: Any) -> None:
    with pytest.raises(BadRequest):
        parse(CHAT, msgspec.json.encode({"messages": messages}), "r1")


def test_odd_but_legal_messages_are_read() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "be brief", "name": "d"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "new-kind"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "42"}], "tool_call_id": "c"},
        {"role": "assistant"},
        {"role": "user", "content": ""},
    ]
    request = parse(CHAT, msgspec.json.encode({"model": "m", "messages": messages}), "r1")
    assert (request.kind, request.model, request.prompt_known) == (Kind.CHAT, "m", True)


def test_both_spellings_of_a_surrogate_pair_are_legal() -> None:
    escaped = parse(COMPLETION, b'{"prompt": "\\ud83d\\ude00", "model": "\\ud83d\\ude00"}', "r1")
    assert escaped.model == "\N{GRINNING FACE}"


def test_fields_of_the_request_are_kept() -> None:
    request = completion(model="m", prompt="x", cache_salt="s", future_field=[1])
    assert (request.model, request.cache_salt) == ("m", "s")
    assert request.body.startswith(b"{")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, True),
        ({"stream": False}, True),
        ({"stream": True}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True, "stream_options": {"include_usage": True, "x": 1}}, True),
    ],
    ids=str,
)
def test_a_stream_tells_its_usage_only_when_asked(fields: dict[str, Any], told: bool) -> None:
    assert completion(prompt="x", **fields).tells_usage is told


def test_a_missing_model_is_the_engines_default() -> None:
    assert completion(prompt="x").model == ""


@pytest.mark.parametrize(
    "reserved",
    [
        {"kv_transfer_params": {"do_remote_prefill": True}},
        {"ec_transfer_params": {"x": {"peer_host": "10.0.0.1"}}},
        {"bootstrap_host": "10.0.0.1"},
        {"bootstrap_port": [1]},
        {"bootstrap_room": 7},
        {"vllm_xargs": {"kv_cache_report_mode": "full"}},
    ],
    ids=lambda value: next(iter(value)),
)
def test_what_only_the_router_may_send_is_refused(reserved: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=next(iter(reserved))):
        completion(prompt="x", **reserved)


def test_transfer_parameters_pass_where_that_is_allowed() -> None:
    body = b'{"prompt": "x", "kv_transfer_params": {"a": 1}, "bootstrap_room": 7}'
    assert parse(COMPLETION, body, "r1", Limits(allow_kv_transfer_params=True)).prompt_known


@pytest.mark.parametrize(
    ("path", "field"),
    [("/v1/completions", "prompt"), ("/invocations", "prompt"), ("/generate", "input_ids")],
)
def test_a_request_of_more_prompts_than_are_read_goes_by_load(path: str, field: str) -> None:
    prompts = b"[" + b"[1]," * MAX_LISTS + b"[1]]"
    body = b'{"model": "m", "%s": %s}' % (field.encode(), prompts)
    request = parse({**COMPLETION, ":path": path}, body, "r1")
    assert (request.model, request.prompt_known) == ("m", False)
    with pytest.raises(BadRequest, match="kv_transfer_params"):
        parse({**COMPLETION, ":path": path}, body[:-1] + b', "kv_transfer_params": {}}', "r1")


def test_a_hidden_body_goes_by_load() -> None:
    request = parse(COMPLETION, None, "r1")
    assert (request.kind, request.prompt_known) == (Kind.OTHER, False)


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_bad_request(body: bytes) -> None:
    for headers in (COMPLETION, CHAT):
        with contextlib.suppress(BadRequest):
            parse(headers, body, "r1")


def test_a_packed_body_is_read_unpacked() -> None:
    body = msgspec.json.encode({"model": "m", "prompt": "x"})
    request = parse({**COMPLETION, "content-encoding": "gzip"}, gzip.compress(body), "r1")
    assert (request.model, request.body, request.prompt_known) == ("m", body, True)


def test_a_packed_body_hides_nothing_that_is_refused() -> None:
    body = gzip.compress(b'{"prompt": "x", "kv_transfer_params": {}}')
    with pytest.raises(BadRequest, match="kv_transfer_params"):
        parse({**COMPLETION, "content-encoding": "gzip"}, body, "r1")


@pytest.mark.parametrize("coding", ["br", "gzip, br", "compress", "deflate"])
def test_a_coding_that_no_engine_undoes_hides_nothing_that_is_refused(coding: str) -> None:
    headers = {**COMPLETION, "content-encoding": coding}
    with pytest.raises(BadRequest, match="kv_transfer_params"):
        parse(headers, b'{"prompt": "x", "kv_transfer_params": {}}', "r1")


def test_a_packed_body_above_the_cap_is_too_large() -> None:
    body = gzip.compress(b'{"prompt": "' + b"x" * 2000 + b'"}')
    with pytest.raises(BodyTooLarge):
        parse({**COMPLETION, "content-encoding": "gzip"}, body, "r1", Limits(max_body_bytes=1000))


RESERVED = (
    b'"kv_transfer_params": {}',
    b'"bootstrap_port": 1',
    b'"vllm_xargs": {"kv_cache_report_mode": "full"}',
)


@pytest.mark.parametrize("reserved", RESERVED, ids=["transfer", "bootstrap", "report-mode"])
@pytest.mark.parametrize("path", ["/v1/%63ompletions", "/v9/new", *(f"/v1/{p}" for p in APIS)])
def test_no_path_lets_pass_what_clients_may_not_send(path: str, reserved: bytes) -> None:
    with pytest.raises(BadRequest):
        parse({**COMPLETION, ":path": path}, FULL[:-1] + b", " + reserved + b"}", "r1")
    escaped = reserved.replace(b"r", b"\\u0072")
    with pytest.raises(BadRequest):
        parse({**COMPLETION, ":path": path}, FULL[:-1] + b", " + escaped + b"}", "r1")


FULL = msgspec.json.encode(
    {
        "prompt": "x",
        "messages": [{"role": "user", "content": "x"}],
        "input": "x",
        "token_ids": [1],
        "text": "x",
        "items": [],
    }
)
"""Good enough for every API."""


@pytest.mark.parametrize("path", APIS)
def test_every_api_is_named_and_read(path: str) -> None:
    headers = {**COMPLETION, ":path": f"/v1/{path}"}
    request = parse(headers, FULL[:-1] + b', "model": "m"}', "r1")
    assert (request.api, request.model) == (APIS[path].name, "m")
    assert api_of(headers) == request.api


@pytest.mark.parametrize("body", [b"", b"no json", b"\xff\x00", b'[{"kv_transfer_params": 3}]'])
def test_any_body_of_an_unknown_path_passes(body: bytes) -> None:
    request = parse({**COMPLETION, ":path": "/v9/new"}, body, "r1")
    assert (request.kind, request.api, request.model) == (Kind.OTHER, "other", "")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, Kind.CHAT),
        ({"prompt": "x"}, Kind.COMPLETION),
        ({"input": "x"}, Kind.OTHER),
    ],
    ids=str,
)
def test_an_invocation_tells_its_api_by_the_body(body: dict[str, Any], kind: Kind) -> None:
    assert (
        parse({**COMPLETION, ":path": "/invocations"}, msgspec.json.encode(body), "").kind is kind
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}",
        b'{"prompt": "a", "temperature": 1e999}',
        b'{"prompt": "a", "seed": -0.0e-99999999}',
        b'{"prompt": "first", "prompt": "a"}',
        b'{"prompt": "a", "x": ' + b"[" * 500 + b"]" * 500 + b"}",
    ],
    ids=["digits", "exponent", "tiny", "twice", "deep"],
)
def test_what_is_legal_json_passes_however_odd(body: bytes) -> None:
    request = parse(COMPLETION, body, "r1")
    assert (request.prompt_known, request.body) == (True, body)
