"""Whether a chat holds images, videos or sounds, as far as its body tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.request.types import Kind, Request

PARTS = frozenset({"image_url", "video_url", "audio_url", "input_audio"})
"""Types of content parts that an encoder computes."""

_QUOTED = tuple(f'"{part}"'.encode() for part in sorted(PARTS))


class _Part(msgspec.Struct):
    type: str = ""


class _Message(msgspec.Struct):
    content: str | list[str | _Part] | None = None


class _Chat(msgspec.Struct):
    messages: Sequence[_Message] = ()


_decoder = msgspec.json.Decoder(_Chat)


def has_media(request: Request) -> bool:
    """No for a body that is no chat."""
    body = request.body
    # Most chats hold none of these words, and looking for bytes is much cheaper than reading.
    if request.kind is not Kind.CHAT or not any(word in body for word in _QUOTED):
        return False
    try:
        chat = _decoder.decode(body)
    except msgspec.DecodeError:
        return False
    return any(
        isinstance(part, _Part) and part.type in PARTS
        for message in chat.messages
        if isinstance(message.content, list)
        for part in message.content
    )
