"""Bodies that nobody would write, for every API: each is read or is a bad request."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest
from router.request.parse import APIS, parse
from router.request.types import Kind

NAMES = (
    "model", "stream", "stream_options", "include_usage", "cache_salt", "prompt", "prompt_embeds",
    "messages", "role", "content", "input", "instructions", "reasoning", "effort", "tools", "type",
    "name", "input_schema", "text", "thinking", "id", "system", "token_ids", "features",
    "input_ids", "extra_key", "image_data", "items", "kv_transfer_params", "vllm_xargs",
    "previous_response_id", "tool_use_id", "call_id", "arguments", "output",
)  # fmt: skip
"""Every field that some parser looks at."""

WORDS = (
    "", "m", "user", "message", "function", "function_call", "function_call_output", "text",
    "input_text", "tool_use", "tool_result", "image", "\x00", "\N{GRINNING FACE}",
)  # fmt: skip

LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    (None, True, False, 0, 1, -1, 2**31, 2**70, 1.5, [], {}, *WORDS)
)
LISTS: st.SearchStrategy[Any] = st.lists(LEAVES, max_size=3)
OBJECTS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(NAMES), LEAVES | LISTS, max_size=4
)
BODIES: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(NAMES), LEAVES | LISTS | OBJECTS | st.lists(OBJECTS, max_size=3), max_size=6
)


@pytest.mark.parametrize("path", APIS)
@given(body=BODIES)
def test_no_json_does_worse_than_a_bad_request(path: str, body: dict[str, Any]) -> None:
    headers = {":method": "POST", ":path": f"/v1/{path}"}
    with contextlib.suppress(BadRequest):
        request = parse(headers, msgspec.json.encode(body), "r1")
        if request.prompt_known:
            assert request.kind is not Kind.OTHER
            assert request.token_ids or msgspec.json.decode(request.body)


@pytest.mark.parametrize("path", APIS)
@given(body=st.binary(max_size=60))
def test_no_bytes_do_worse_than_a_bad_request(path: str, body: bytes) -> None:
    headers = {":method": "POST", ":path": f"/v1/{path}"}
    with contextlib.suppress(BadRequest):
        parse(headers, b"{" + body + b"}", "r1")
