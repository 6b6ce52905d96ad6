from __future__ import annotations

import msgspec
import pytest

from router.request.media import PARTS, has_media
from router.request.types import Kind
from tests.support import make


def chat(content: object) -> bytes:
    return msgspec.json.encode({"messages": [{"role": "user", "content": content}]})


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_that_an_encoder_computes_is_media(part: str) -> None:
    body = chat([{"type": "text", "text": "what is it"}, {"type": part, part: {}}])
    assert has_media(make.request(kind=Kind.CHAT, body=body))


@pytest.mark.parametrize(
    "body",
    [
        chat("plain"),
        chat([{"type": "text", "text": "hi"}]),
        chat([{"type": "text", "text": 'say "image_url"'}]),
        chat("image_url"),
        b'{"messages": "image_url", "image_url"',
        b"",
    ],
    ids=["text", "text-part", "quoted-in-text", "the-word-alone", "no-json", "empty"],
)
def test_words_about_media_are_none(body: bytes) -> None:
    assert not has_media(make.request(kind=Kind.CHAT, body=body))


def test_only_chats_are_read() -> None:
    body = chat([{"type": "image_url", "image_url": {"url": "x"}}])
    assert not has_media(make.request(kind=Kind.OTHER, body=body))
