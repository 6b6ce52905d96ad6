"""The images, videos and sounds of a chat, by what its body says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from router.request.types import Kind, Request

_PARTS: Mapping[str, str] = {
    "image_url": "image",
    "video_url": "video",
    "audio_url": "audio",
    "input_audio": "audio",
}
"""Type of a content part that an encoder computes -> what it is; the part's content stands under
that type."""

_QUOTED = tuple(f'"{part}"'.encode() for part in sorted(_PARTS))


class _Message(msgspec.Struct):
    content: str | list[Any] | None = None


class _Chat(msgspec.Struct):
    messages: list[_Message] = []


_decoder = msgspec.json.Decoder(_Chat)


def media_parts(request: Request) -> Sequence[tuple[str, str]]:
    """A name for each item, equal for equal references, and what it is, in order; none for what is
    no chat."""
    body = request.body
    # Most chats hold none of these words, and looking for bytes is much cheaper than reading.
    if request.kind is not Kind.CHAT or not any(word in body for word in _QUOTED):
        return ()
    try:
        chat = _decoder.decode(body)
    except msgspec.DecodeError:
        return ()
    return tuple(_named(chat))


def _named(chat: _Chat) -> Iterator[tuple[str, str]]:
    for message in chat.messages:
        for part in message.content if isinstance(message.content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _PARTS:
                name = xxh3_128_hexdigest(msgspec.json.encode([kind, part.get(kind)]))
                yield name, _PARTS[kind]
