"""The prompts of an OpenAI body, and how it wants ids made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tokenizer_sidecar import fields
from tokenizer_sidecar.encode import Side
from tokenizer_sidecar.errors import RenderError, Unsupported
from tokenizer_sidecar.post_processing import pack

_MAX_ID = 2**32 - 1
"""Ids travel as unsigned 32-bit numbers."""


class TextEncoder(Protocol):
    """Makes packed ids of text."""

    def encode_packed(
        self, text: str, *, add_special_tokens: bool, max_tokens: int | None, cut: Side
    ) -> bytes:
        """Raises InvalidText."""


class Form(msgspec.Struct, frozen=True):
    """How ids are made of text.

    Attributes:
        max_tokens: None for all. A request may also ask to be cut to the engine's own context
            length; that is unknown here, so such a prompt is taken to fit.
    """

    add_special_tokens: bool
    max_tokens: int | None
    cut: Side


def form_of(body: Mapping[str, Any], *, add_special_tokens: bool) -> Form:
    """What the body asks for, with this default. Raises RenderError."""
    special = fields.flag(body, "add_special_tokens", default=add_special_tokens)
    limit = fields.count(body, "truncate_prompt_tokens")
    side = body.get("truncation_side")
    if side not in (None, "left", "right"):
        raise RenderError("truncation_side must be left or right")
    return Form(
        add_special_tokens=special,
        max_tokens=None if limit == -1 else limit,
        cut="right" if side == "right" else "left",
    )


def prompts_of(body: Mapping[str, Any]) -> Sequence[str | list[int]]:
    """The prompts in one shape. Raises RenderError, Unsupported."""
    if body.get("suffix") is not None:
        raise RenderError("suffix is not supported")
    if body.get("prompt_embeds") not in (None, []):
        raise Unsupported("the prompt is given as embeddings")
    match body.get("prompt"):
        case str() as text if text:
            return [text]
        case [int(), *_] as ids:
            return [_token_ids(ids)]
        case [str(), *_] as texts if all(isinstance(text, str) for text in texts):
            return list(texts)
        case [list(), *_] as lists if all(isinstance(ids, list) for ids in lists):
            return [_token_ids(ids) for ids in lists]
        case None | "" | []:
            raise RenderError("prompt must be given and not be empty")
        case _:
            raise RenderError("prompt must be a text, a list of texts, token ids, or lists of them")


def _token_ids(ids: list[Any]) -> list[int]:
    if not set(map(type, ids)) <= {int}:
        raise RenderError("token ids must be whole numbers")
    if ids and (min(ids) < 0 or max(ids) > _MAX_ID):
        raise RenderError("a token id is out of range")
    return ids


def packed(prompt: str | list[int], form: Form, encoder: TextEncoder) -> bytes:
    """A prompt's ids. Raises InvalidText."""
    if isinstance(prompt, str):
        return encoder.encode_packed(
            prompt,
            add_special_tokens=form.add_special_tokens,
            max_tokens=form.max_tokens,
            cut=form.cut,
        )
    if form.max_tokens is None or len(prompt) <= form.max_tokens:
        return pack(prompt)
    start = len(prompt) - form.max_tokens if form.cut == "left" else 0
    return pack(prompt[start : start + form.max_tokens])
