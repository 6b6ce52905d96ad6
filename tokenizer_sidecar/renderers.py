"""What the services need of a model, and which kind of renderer a model directory wants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.encode import CACHE_BYTES
from tokenizer_sidecar.mistral import TEKKEN, MistralRenderer
from tokenizer_sidecar.render import Renderer


class AnyRenderer(Protocol):
    """A model whose prompts can be turned into ids. Safe to use from many threads.

    Everything that takes a body or a text raises RenderError and Unsupported.
    """

    @property
    def method(self) -> str:
        """How ids are computed, for people."""

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""

    def packed_completion(self, body: Mapping[str, Any]) -> bytes:
        """Packed ids of the first prompt of a /v1/completions body."""

    def packed_chat(self, body: Mapping[str, Any]) -> bytes:
        """Packed ids of a /v1/chat/completions body."""

    def prompt(self, body: Mapping[str, Any]) -> str:
        """The text of a /v1/chat/completions body."""

    def tokenize(self, text: str, *, add_special_tokens: bool) -> tuple[list[int], list[int]]:
        """Ids of a text, and where each begins and ends in it."""


def load(
    directory: Path, *, cache_bytes: int = CACHE_BYTES, trust_request_template: bool = False
) -> AnyRenderer:
    """Read a model directory, as the engine would. Raises ModelError."""
    if (directory / TEKKEN).is_file():
        return MistralRenderer.load(directory, cache_bytes=cache_bytes)
    return Renderer.load(
        directory, cache_bytes=cache_bytes, trust_request_template=trust_request_template
    )
