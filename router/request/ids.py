"""Token ids that clients send instead of text."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Sequence
from typing import cast

import msgspec

from router.errors import BadRequest

MAX_TOKEN_ID = 2**31 - 1
"""Engines keep token ids in signed 32-bit tensors."""


MAX_LISTS = 65_536
"""Of one request; no engine takes so many prompts, and to make an object of each of millions holds
up every other request."""

_LISTS = re.compile(rb"\s*\[\s*\[")


def may_flood(body: bytes) -> bool:
    """There could be more lists of ids in it than are read."""
    return body.count(b"[") > MAX_LISTS


def is_flood(prompt: msgspec.Raw) -> bool:
    """It is lists of ids, more than are read."""
    raw = bytes(prompt)
    return _LISTS.match(raw) is not None and raw.count(b"[") > MAX_LISTS + 1


def first_ids(prompt: object, place: str) -> bytes | None:
    """The first prompt's ids as little-endian u32 where the client sent ids, else None.

    `prompt` is a text, texts, ids or lists of ids. Raises BadRequest, which names `place`, where a
    list mixes these shapes or holds an impossible id.
    """
    if not isinstance(prompt, list) or not prompt:
        return None
    first = prompt[0]
    if any(type(item) is not type(first) for item in prompt):
        shapes = "only texts, only token ids or only lists of them"
        raise BadRequest(f"expected {shapes} - at `{place}`")
    if isinstance(first, str):
        return None
    lists = cast("list[list[int]]", prompt if isinstance(first, list) else [prompt])
    for ids in lists:
        check(ids, place)
    return packed(lists[0])


def check(ids: Sequence[int], place: str) -> None:
    """Raises BadRequest."""
    if ids and not (min(ids) >= 0 and max(ids) <= MAX_TOKEN_ID):
        raise BadRequest(f"token ids lie between 0 and {MAX_TOKEN_ID} - at `{place}`")


def packed(ids: Sequence[int]) -> bytes:
    """Little-endian u32 each."""
    made = array("I", ids)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def is_empty(prompt: object) -> bool:
    """Nothing to match: no text, no ids."""
    return not prompt or (isinstance(prompt, list) and prompt[0] in ("", []))


def how_many(prompt: object) -> int:
    """Prompts in it: a list of ids is one, a list of texts or of such lists is several."""
    several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
    return len(cast("list[object]", prompt)) if several else 1
