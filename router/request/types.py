"""A client's request, as the scheduler sees it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class Kind(enum.StrEnum):
    """How the prompt reads.

    OTHER is every request whose prompt the router does not read: it goes by load.
    """

    COMPLETION = "completion"
    CHAT = "chat"
    OTHER = "other"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        id: The client's ``x-request-id``, or a new one.
        kind: How `body` reads.
        api: Which API it speaks, for people and metrics.
        path: Without the query.
        headers: Lower-case name -> value.
        body: An OpenAI body that renders to the prompt the engine will compute: what the client
            sent, unpacked, or made of it where it speaks another API.
        raw: What the client sent, unpacked; empty where it is not read.
        model: Model name the request is sent to; empty where there is none.
        asked_model: The name that the client gave; another one where it was rewritten.
        rewritten_by: What rewrote the name; empty where nothing did.
        sent: Body to send instead of the client's; None where that goes on as it is.
        token_ids: First prompt as little-endian u32, where the client sent ids instead of text.
        prompt_known: False where no prompt can be read: other paths, a hidden body, an empty
            prompt.
        prompts: How many; what is known is known of the first.
        cache_salt: Client's salt; blocks of another salt never match.
        tells_usage: The answer will say what it cost.
        priority: That of its objective; a negative one may be turned away when the pool is full.
    """

    id: str
    kind: Kind
    api: str = "other"
    path: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    raw: bytes = b""
    model: str = ""
    asked_model: str = ""
    rewritten_by: str = ""
    sent: bytes | None = None
    token_ids: bytes | None = None
    prompt_known: bool = False
    prompts: int = 1
    cache_salt: str | None = None
    tells_usage: bool = False
    priority: int = 0
