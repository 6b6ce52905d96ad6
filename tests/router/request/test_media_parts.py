from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.request.media_parts import media_parts
from router.request.types import Kind
from tests.support import make


def names(*contents: Any, kind: Kind = Kind.CHAT) -> tuple[str, ...]:
    messages = [{"role": "user", "content": content} for content in contents]
    body = msgspec.json.encode({"model": "m", "messages": messages})
    return tuple(name for name, _ in media_parts(make.request(kind=kind, body=body)))


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_equal_references_have_equal_names_in_the_order_of_the_chat() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    found = names(
        "hi", [image("a"), {"type": "text", "text": "and"}, image("b")], [sound, image("a")]
    )
    assert len(found) == 4
    assert found[0] == found[3]
    assert len(set(found)) == 3


def test_the_kind_of_an_item_is_part_of_its_name() -> None:
    video = {"type": "video_url", "video_url": {"url": "a"}}
    assert names([image("a")]) != names([video])


@pytest.mark.parametrize(
    "content",
    ["image_url", None, [], [{"type": "text", "text": '"image_url"'}], [{"type": ["image_url"]}]],
    ids=["text", "nothing", "no-parts", "quoted", "no-type"],
)
def test_other_content_has_no_media(content: Any) -> None:
    assert names(content) == ()


def test_what_is_no_chat_has_no_media() -> None:
    assert names([image("a")], kind=Kind.COMPLETION) == ()
    assert media_parts(make.request(kind=Kind.CHAT, body=b'{"image_url"')) == ()


def test_an_item_says_what_it_is() -> None:
    parts = [
        image("a"),
        {"type": "video_url", "video_url": {"url": "a"}},
        {"type": "audio_url", "audio_url": {"url": "a"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    body = msgspec.json.encode({"messages": [{"role": "user", "content": parts}]})
    found = media_parts(make.request(kind=Kind.CHAT, body=body))
    assert [modality for _, modality in found] == ["image", "video", "audio", "audio"]
