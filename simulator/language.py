"""What an engine reads from its model directory: tokenizer, template, end tokens. IO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import msgspec

from simulator.text import Speaker
from tokenizer_sidecar.render import Renderer


class Language:
    """
    Attributes:
        end_token_ids: Tokens that end an answer; the first is the one that is sampled.
    """

    def __init__(
        self, renderer: Renderer, end_token_ids: tuple[int, ...], tokenizer_json: Path
    ) -> None:
        self.renderer = renderer
        self.encoder = renderer.encoder
        self.end_token_ids = end_token_ids
        self.speaker = Speaker(
            partial(self.encoder.encode, add_special_tokens=False), self.encoder.decode
        )
        self._tokenizer_json = tokenizer_json

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the directory. Raises ModelError of the sidecar, ValueError without an end token."""
        return cls(
            Renderer.load(directory, prove=False),
            _end_tokens(directory),
            directory / "tokenizer.json",
        )

    @cached_property
    def token_strings(self) -> Mapping[int, str]:
        """Each token as the vocabulary writes it, for /tokenize; read when first asked for."""
        content = _read(self._tokenizer_json)
        vocabulary: dict[str, int] = content["model"]["vocab"]
        strings = {token_id: string for string, token_id in vocabulary.items()}
        return strings | {added["id"]: added["content"] for added in content["added_tokens"]}


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    return content


def _end_tokens(directory: Path) -> tuple[int, ...]:
    """The model's end tokens, where its generation settings say more than its config."""
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        found = _read(path).get("eos_token_id") if path.exists() else None
        if found is not None:
            return tuple(found) if isinstance(found, list) else (found,)
    raise ValueError(f"{directory}: no eos_token_id in generation_config.json or config.json")
