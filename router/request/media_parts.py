"""The images, videos and sounds of a chat, by what its body says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from router.request.types import Kind, Request

_PARTS = frozenset({"image_url", "video_url", "audio_url", "input_audio"})
"""Types of content parts that an encoder computes; the part's content stands under that name."""

_QUOTED = tuple(f'"{part}"'.encode() for part in sorted(_PARTS))


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None


class _Chat(msgspec.Struct):
    messages: list[_Message] = []


_decoder = msgspec.json.Decoder(_Chat)


def media_names(request: Request) -> tuple[str, ...]:
    """A name for each item, equal for equal references, in order; none for what is no chat."""
    body = request.body
    # Most chats hold none of these words, and looking for bytes is much cheaper than reading.
    if request.kind is not Kind.CHAT or not any(word in body for word in _QUOTED):
        return ()
    try:
        chat = _decoder.decode(body)
    except msgspec.DecodeError:
        return ()
    return tuple(_names(chat))


def _names(chat: _Chat) -> Iterator[str]:
    for message in chat.messages:
        for part in message.content if isinstance(message.content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _PARTS:
                yield xxh3_128_hexdigest(msgspec.json.encode([kind, part.get(kind)]))
