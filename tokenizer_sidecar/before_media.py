"""Chats with media: the ids before the first item, which do not depend on it.

What an engine puts in an item's place only its own processor knows, but it stands in the item's
own message. So the chat is rendered with a mark in that message's place, and what comes before the
mark is encoded. That is how the prompt begins: engines mark media by special tokens, at which text
is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizer_sidecar import fields
from tokenizer_sidecar.errors import Unsupported
from tokenizer_sidecar.messages import is_media
from tokenizer_sidecar.renderers import AnyRenderer

MARK = "<|warmroute: media|>"


def before_media(renderer: AnyRenderer, body: Mapping[str, Any]) -> bytes:
    """Packed ids of what precedes the first message with media. Raises RenderError, Unsupported."""
    if fields.count(body, "truncate_prompt_tokens") not in (None, -1):
        raise Unsupported("where a prompt with media is cut depends on them")
    if fields.flag(body, "add_special_tokens", default=False):
        raise Unsupported("special tokens may stand behind the media")
    rendered = renderer.prompt({**body, "messages": _marked(body["messages"])})
    if rendered.count(MARK) != 1:  # more than once: a client wrote it, too, inside some text
        raise Unsupported("the chat template does not show the message with media just once")
    text = rendered.partition(MARK)[0]
    if not text:
        return b""
    return renderer.packed_completion({"prompt": text, "add_special_tokens": False})


def _marked(messages: list[Any]) -> list[Any]:
    """The mark instead of the first message with media; of later ones only their text."""
    first = next(i for i, message in enumerate(messages) if _media_of(message))
    mark = {**messages[first], "content": MARK}
    return [*messages[:first], mark, *map(_without_media, messages[first + 1 :])]


def _media_of(message: Any) -> list[Any]:
    content = message.get("content") if isinstance(message, dict) else None
    return [part for part in content if is_media(part)] if isinstance(content, list) else []


def _without_media(message: Any) -> Any:
    if not _media_of(message):
        return message
    return {**message, "content": [part for part in message["content"] if not is_media(part)]}
