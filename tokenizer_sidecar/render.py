"""An OpenAI request body, turned into the token ids the engine will compute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.chat_template import ChatTemplate
from tokenizer_sidecar.encode import CACHE_BYTES, Encoder
from tokenizer_sidecar.errors import RenderError, Unsupported
from tokenizer_sidecar.post_processing import unpack
from tokenizer_sidecar.prompts import form_of, packed, prompts_of

__all__ = ["ChatTemplate", "RenderError", "Renderer", "Unsupported"]


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
        prove: bool = True,
    ) -> Self:
        """Read a model directory; `prove` as for Encoder. Raises ModelError."""
        template = ChatTemplate.load(directory, trust_request_template=trust_request_template)
        return cls(Encoder.load(directory, cache_bytes=cache_bytes, prove=prove), template)

    @property
    def method(self) -> str:
        """How ids are computed, for people."""
        return str(self.encoder.method)

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""
        return self.encoder.cache_stats()

    def completion(self, body: Mapping[str, Any]) -> list[list[int]]:
        """Token ids of each prompt of a /v1/completions body. Raises RenderError, Unsupported."""
        form = form_of(body, add_special_tokens=True)
        return [unpack(packed(prompt, form, self.encoder)) for prompt in prompts_of(body)]

    def first_completion(self, body: Mapping[str, Any]) -> list[int]:
        """The first of `completion`, without encoding the others; all of them are checked."""
        return unpack(self.packed_completion(body))

    def packed_completion(self, body: Mapping[str, Any]) -> bytes:
        """As `first_completion`, but the ids as little-endian 32-bit numbers."""
        form = form_of(body, add_special_tokens=True)
        return packed(prompts_of(body)[0], form, self.encoder)

    def chat(self, body: Mapping[str, Any]) -> list[int]:
        """Token ids of a /v1/chat/completions body. Raises RenderError, Unsupported."""
        return unpack(self.packed_chat(body))

    def packed_chat(self, body: Mapping[str, Any]) -> bytes:
        """As `chat`, but the ids as little-endian 32-bit numbers."""
        form = form_of(body, add_special_tokens=False)
        return packed(self.prompt(body), form, self.encoder)

    def prompt(self, body: Mapping[str, Any]) -> str:
        """The text of a /v1/chat/completions body. Raises RenderError, Unsupported."""
        return self.template.render(body)

    def tokenize(self, text: str, *, add_special_tokens: bool) -> tuple[list[int], list[int]]:
        """Ids of a text, and where each begins and ends in it. Raises InvalidText."""
        return self.encoder.encode_with_offsets(text, add_special_tokens=add_special_tokens)
