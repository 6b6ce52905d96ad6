"""A client's request, as the scheduler sees it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class Kind(enum.StrEnum):
    """Which API the request speaks.

    OTHER is everything the router does not read: it goes by load, its bytes untouched.
    """

    COMPLETION = "completion"
    CHAT = "chat"
    OTHER = "other"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        id: The client's ``x-request-id``, or a new one.
        kind: Which API it speaks.
        path: Without the query.
        headers: Lower-case name -> value.
        body: Exactly the bytes the client sent.
        model: Model name the client asked for; empty where it named none.
        token_ids: First prompt as little-endian u32, where the client sent ids instead of text.
        prompt_known: False where no prompt can be read: other paths, a hidden body, an empty
            prompt.
        cache_salt: Client's salt; blocks of another salt never match.
        tells_usage: The answer will say what it cost.
    """

    id: str
    kind: Kind
    path: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    model: str = ""
    token_ids: bytes | None = None
    prompt_known: bool = False
    cache_salt: str | None = None
    tells_usage: bool = False
