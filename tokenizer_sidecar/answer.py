"""One tokenize request, from the client's JSON to packed ids or the reason there are none."""

from __future__ import annotations

from typing import Any

import msgspec

from tokenizer_sidecar.before_media import before_media
from tokenizer_sidecar.errors import MediaContent, RenderError, Unsupported
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    CHAT,
    COMPLETION,
    OK,
    REFUSED,
    UNSUPPORTED,
    Kind,
    Outcome,
    TokenizeReply,
)
from tokenizer_sidecar.renderers import AnyRenderer

_MAX_MESSAGE_CHARS = 500
"""A template may put the whole prompt into its complaint."""

_body_decoder = msgspec.json.Decoder(dict[str, Any])


def answer(renderer: AnyRenderer, id_: int, kind: Kind.ValueType, body: bytes) -> TokenizeReply:
    """The reply: ids of the first prompt, or why the engine would refuse it."""
    try:
        ids, partial = _ids(renderer, kind, _body_decoder.decode(body))
    except Unsupported as error:
        return refusal(id_, UNSUPPORTED, str(error))
    except RenderError as error:
        return refusal(id_, REFUSED, str(error))
    # Its own class for what is wrong with the JSON; RecursionError for nesting without end.
    except (msgspec.MsgspecError, RecursionError) as error:
        return refusal(id_, REFUSED, f"the body is not a JSON object: {error}")
    return TokenizeReply(id=id_, outcome=OK, token_ids=ids, partial=partial)


def refusal(id_: int, outcome: Outcome.ValueType, message: str) -> TokenizeReply:
    """A reply without ids."""
    # Text from a template may hold half a surrogate pair, which protobuf rejects.
    readable = message[:_MAX_MESSAGE_CHARS].encode(errors="replace").decode()
    return TokenizeReply(id=id_, outcome=outcome, message=readable)


def _ids(renderer: AnyRenderer, kind: Kind.ValueType, body: dict[str, Any]) -> tuple[bytes, bool]:
    """The ids, and whether they are only those before the first message with media."""
    if kind == COMPLETION:
        return renderer.packed_completion(body), False
    if kind != CHAT:
        raise RenderError(f"unknown kind {kind}")
    try:
        return renderer.packed_chat(body), False
    except MediaContent:
        return before_media(renderer, body), True
