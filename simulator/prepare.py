"""From a parsed body to prompts that the engine takes: rendered, checked and hashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simulator.errors import ApiError
from simulator.hashing import Hasher, Identity
from simulator.openai import Ask, Kind
from tokenizer_sidecar.render import Renderer, RenderError, Unsupported


class Prompt(msgspec.Struct, frozen=True):
    """Token ids, and the digests of their full blocks."""

    token_ids: Sequence[int]
    digests: Sequence[bytes]


class Preparer:
    """Makes prompts for one engine. Safe to use from many threads.

    `context_tokens` is what a refusal tells the client, `token_limit` what the cache can hold.
    """

    def __init__(
        self,
        renderer: Renderer,
        hasher: Hasher,
        model: str,
        *,
        context_tokens: int,
        token_limit: int,
    ) -> None:
        self._renderer = renderer
        self._hasher = hasher
        self._model = model
        self._vocab_size = renderer.encoder.vocab_size
        self._context_tokens = context_tokens
        self._token_limit = token_limit

    def prompts(
        self, kind: Kind, body: Mapping[str, Any], ask: Ask, identity: Identity
    ) -> list[Prompt]:
        """One prompt for a chat, one or more for a completion. Raises ApiError."""
        return [
            Prompt(token_ids, self._hasher.chain(token_ids, identity))
            for token_ids in self.checked_token_ids(kind, body, ask)
        ]

    def checked_token_ids(self, kind: Kind, body: Mapping[str, Any], ask: Ask) -> list[list[int]]:
        """The ids of prompts that the engine would take. Raises ApiError."""
        prompts = self.token_ids(kind, body, ask)
        for token_ids in prompts:
            self._check(token_ids)
        return prompts

    def token_ids(self, kind: Kind, body: Mapping[str, Any], ask: Ask) -> list[list[int]]:
        """The ids of prompts of any length. Raises ApiError."""
        forwarded = ask.kv_transfer_params and ask.kv_transfer_params.prompt_token_ids
        if kind == "chat" and forwarded:
            return [forwarded]
        try:
            if kind == "chat":
                return [self._renderer.chat(body)]
            return self._renderer.completion(body)
        except RenderError as error:
            raise ApiError.bad(str(error)) from error
        except Unsupported as error:
            raise ApiError.bad(f"{self._model} is not a multimodal model") from error

    def _check(self, token_ids: Sequence[int]) -> None:
        largest = max(token_ids, default=-1)
        if largest < 0:
            raise ApiError.bad("The decoder prompt cannot be empty")
        if largest >= self._vocab_size:
            raise ApiError.bad(f"Token id {largest} is out of vocabulary")
        if len(token_ids) >= self._token_limit:
            message = (
                f"This model's maximum context length is {self._context_tokens} tokens. However,"
                f" your prompt contains {len(token_ids)} input tokens, which exceeds this limit"
                " even without any output tokens. Please reduce the length of the input prompt."
            )
            raise ApiError.bad(message, "input_tokens", len(token_ids))
