"""An OpenAI request body, turned into the token ids the engine will compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from tokenizer_sidecar import fields
from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.chat_template import ChatTemplate
from tokenizer_sidecar.encode import CACHE_BYTES, Encoder, Side
from tokenizer_sidecar.errors import RenderError, Unsupported
from tokenizer_sidecar.post_processing import pack, unpack

__all__ = ["ChatTemplate", "RenderError", "Renderer", "Unsupported"]

_MAX_ID = 2**32 - 1
"""Ids travel as unsigned 32-bit numbers."""


class Renderer:
    """One model's templates and tokenizer. Safe to use from many threads."""

    def __init__(self, encoder: Encoder, template: ChatTemplate) -> None:
        self.encoder = encoder
        self.template = template

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        trust_request_template: bool = False,
        cache_bytes: int = CACHE_BYTES,
    ) -> Self:
        """Read a model directory. Raises ModelError."""
        template = ChatTemplate.load(directory, trust_request_template=trust_request_template)
        return cls(Encoder.load(directory, cache_bytes=cache_bytes), template)

    @property
    def method(self) -> str:
        """How ids are computed, for people."""
        return str(self.encoder.method)

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""
        return self.encoder.cache_stats()

    def completion(self, body: Mapping[str, Any]) -> list[list[int]]:
        """Token ids of each prompt of a /v1/completions body. Raises RenderError, Unsupported."""
        form = _form(body, add_special_tokens=True)
        return [unpack(self._ids(prompt, form)) for prompt in _prompts(body)]

    def first_completion(self, body: Mapping[str, Any]) -> list[int]:
        """The first of `completion`, without encoding the others; all of them are checked."""
        return unpack(self.packed_completion(body))

    def packed_completion(self, body: Mapping[str, Any]) -> bytes:
        """As `first_completion`, but the ids as little-endian 32-bit numbers."""
        return self._ids(_prompts(body)[0], _form(body, add_special_tokens=True))

    def chat(self, body: Mapping[str, Any]) -> list[int]:
        """Token ids of a /v1/chat/completions body. Raises RenderError, Unsupported."""
        return unpack(self.packed_chat(body))

    def packed_chat(self, body: Mapping[str, Any]) -> bytes:
        """As `chat`, but the ids as little-endian 32-bit numbers."""
        form = _form(body, add_special_tokens=False)
        return self._ids(self.prompt(body), form)

    def prompt(self, body: Mapping[str, Any]) -> str:
        """The text of a /v1/chat/completions body. Raises RenderError, Unsupported."""
        return self.template.render(body)

    def _ids(self, prompt: str | list[int], form: _Form) -> bytes:
        if isinstance(prompt, str):
            return self.encoder.encode_packed(
                prompt,
                add_special_tokens=form.add_special_tokens,
                max_tokens=form.max_tokens,
                cut=form.cut,
            )
        if form.max_tokens is None or len(prompt) <= form.max_tokens:
            return pack(prompt)
        start = len(prompt) - form.max_tokens if form.cut == "left" else 0
        return pack(prompt[start : start + form.max_tokens])


class _Form(msgspec.Struct, frozen=True):
    """How ids are made of text.

    Attributes:
        max_tokens: None for all. A request may also ask to be cut to the engine's own context
            length; that is unknown here, so such a prompt is taken to fit.
    """

    add_special_tokens: bool
    max_tokens: int | None
    cut: Side


def _form(body: Mapping[str, Any], *, add_special_tokens: bool) -> _Form:
    special = fields.flag(body, "add_special_tokens", default=add_special_tokens)
    limit = fields.count(body, "truncate_prompt_tokens")
    side = body.get("truncation_side")
    if side not in (None, "left", "right"):
        raise RenderError("truncation_side must be left or right")
    return _Form(
        add_special_tokens=special,
        max_tokens=None if limit == -1 else limit,
        cut="right" if side == "right" else "left",
    )


def _prompts(body: Mapping[str, Any]) -> Sequence[str | list[int]]:
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
