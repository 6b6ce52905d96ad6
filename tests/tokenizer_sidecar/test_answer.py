"""One request to its reply."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizer_sidecar.disk import TINY, chat, write_model
from tokenizer_sidecar.answer import answer, refusal
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    CHAT,
    COMPLETION,
    FAILED,
    KIND_UNSPECIFIED,
    OK,
    REFUSED,
    UNSUPPORTED,
)
from tokenizer_sidecar.post_processing import pack
from tokenizer_sidecar.render import Renderer

tiny = Renderer.load(TINY)


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_ids_are_packed_as_little_endian_words(ids: list[int]) -> None:
    assert pack(ids) == struct.pack(f"<{len(ids)}I", *ids)


def test_a_chat_is_rendered_and_encoded() -> None:
    reply = answer(tiny, 5, CHAT, json.dumps(chat("Hello there")).encode())
    assert (reply.id, reply.outcome, reply.message) == (5, OK, "")
    assert reply.token_ids == pack(tiny.chat(chat("Hello there")))


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}


def test_a_chat_with_media_is_known_up_to_them() -> None:
    body = json.dumps(chat("Hello there", {"role": "assistant", "content": "Hi."}, IMAGE)).encode()
    reply = answer(tiny, 5, CHAT, body)
    assert (reply.outcome, reply.partial) == (OK, True)
    whole = pack(tiny.chat(chat("Hello there", {"role": "assistant", "content": "Hi."}, "")))
    assert whole.startswith(reply.token_ids)
    assert len(reply.token_ids) > 4 * 10
    assert not answer(tiny, 5, CHAT, json.dumps(chat("Hello there")).encode()).partial


def test_media_in_a_chat_that_is_cut_are_unsupported() -> None:
    body = json.dumps(chat(IMAGE, truncate_prompt_tokens=5)).encode()
    assert answer(tiny, 5, CHAT, body).outcome == UNSUPPORTED


def test_a_completion_s_first_prompt_is_encoded() -> None:
    reply = answer(tiny, 5, COMPLETION, b'{"prompt": ["Hello there", "b"]}')
    assert reply.token_ids == pack([3237, 348, 1434])


BAD_BODIES = {
    "no JSON": b"",
    "cut off": b'{"prompt": "a',
    "not an object": b"[1]",
    "raw byte": b'{"prompt": "\xff"}',
    "half a surrogate pair": b'{"prompt": "\\ud800"}',
    "byte order mark": b'\xef\xbb\xbf{"prompt": "a"}',
    "deep": b'{"prompt": ' + b"[" * 200_000,
    "deep and closed": b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a number out of range": b'{"prompt": "a", "x": 1e999}',
    "no prompt": b"{}",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_bad_bodies_are_refused_with_a_reason(body: bytes) -> None:
    reply = answer(tiny, 9, COMPLETION, body)
    assert (reply.id, reply.outcome) == (9, REFUSED)
    assert reply.message
    assert not reply.token_ids


def test_an_unknown_kind_is_refused() -> None:
    assert answer(tiny, 1, KIND_UNSPECIFIED, b"{}").outcome == REFUSED


def test_a_refusal_that_quotes_broken_text_can_be_sent(tmp_path: Path) -> None:
    quoting = "{{ raise_exception(messages[1].tool_calls[0].function.arguments.a) }}"
    renderer = Renderer.load(write_model(tmp_path, template=quoting))
    call = {"type": "function", "function": {"name": "f", "arguments": '{"a": "\\ud800"}'}}
    body: dict[str, Any] = chat("a", {"role": "assistant", "tool_calls": [call]})
    reply = answer(renderer, 1, CHAT, json.dumps(body).encode())
    assert reply.outcome == REFUSED
    assert reply.message.endswith("?")


def test_messages_are_short() -> None:
    assert len(refusal(1, FAILED, "x" * 10_000).message) == 500
