"""Models that come with mistral-common's tekken.json: it renders chats to ids, without a template.

mistral-common is imported when such a model is loaded, and not needed otherwise. Every text it
encodes is looked up in pieces first, as for other models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from tokenizer_sidecar import fields
from tokenizer_sidecar.added_tokens import AddedTokens
from tokenizer_sidecar.cache import CacheStats, PieceCache
from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.cuts import PIECE_CHARS, Cutter, between_pieces
from tokenizer_sidecar.encode import CACHE_BYTES, Side, require_utf8
from tokenizer_sidecar.errors import ModelError, RenderError, Unproven, Unsupported
from tokenizer_sidecar.messages import Message, conversation, tools
from tokenizer_sidecar.post_processing import WORD_BYTES, pack, unpack
from tokenizer_sidecar.prompts import form_of, packed, prompts_of
from tokenizer_sidecar.split_pattern import combine
from tokenizer_sidecar.split_syntax import parse

if TYPE_CHECKING:
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

TEKKEN = "tekken.json"

_MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id")


class _Config(msgspec.Struct, frozen=True):
    pattern: str


class _File(msgspec.Struct, frozen=True):
    config: _Config


class TekkenEncoder:
    """Text to ids, by mistral-common and in pieces. Text that looks like a special token is text.

    Safe to use from many threads.
    """

    def __init__(
        self,
        tekken: Tekkenizer,
        pattern: str,
        cache_bytes: int,
        *,
        piece_chars: int = PIECE_CHARS,
    ) -> None:
        self._encode_text = tekken.encode
        self._bos = pack([tekken.bos_id])
        self._cache = PieceCache(cache_bytes)
        self._cutter: Cutter | None = None
        self.method = "mistral-common, in pieces"
        try:
            places = between_pieces(combine([parse(pattern, Classes())]))
            self._cutter = Cutter(places, AddedTokens([], {}, str), piece_chars=piece_chars)
        except Unproven as error:
            self.method = f"mistral-common, as a whole ({error})"

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""
        return self._cache.stats()

    def encode_packed(
        self, text: str, *, add_special_tokens: bool, max_tokens: int | None, cut: Side
    ) -> bytes:
        """Packed ids, after a BOS where special tokens are wanted. Raises RenderError."""
        bos = self._bos if add_special_tokens else b""
        ids = self.ids(text)
        if max_tokens is not None:
            kept = max(0, max_tokens * WORD_BYTES - len(bos))
            ids = ids[:kept] if cut == "right" else ids[max(0, len(ids) - kept) :]
            return (bos + ids)[: max_tokens * WORD_BYTES]
        return bos + ids

    def ids(self, text: str) -> bytes:
        """Packed ids of the text alone. Raises RenderError."""
        cutter, cache = self._cutter, self._cache
        pieces = [text] if cutter is None else cutter.pieces(text, cache.following)
        return cache.through(pieces, lambda run: list(map(self._piece, run)))

    def _piece(self, piece: str) -> bytes:
        require_utf8(piece)
        try:
            return pack(self._encode_text(piece, bos=False, eos=False))
        except ValueError as error:  # tiktoken gives up on very long runs of space
            raise RenderError(f"the engine cannot encode this text: {error}") from error


class MistralRenderer:
    """One model's chats and completions. Safe to use from many threads."""

    def __init__(
        self, tokenizer: MistralTokenizer[Any, Any, Any, Any, Any], encoder: TekkenEncoder
    ) -> None:
        self._tokenizer = tokenizer
        self.encoder = encoder

    @classmethod
    def load(cls, directory: Path, *, cache_bytes: int = CACHE_BYTES) -> Self:
        """Read tekken.json. Raises ModelError, also where mistral-common is not installed."""
        path = directory / TEKKEN
        try:
            from mistral_common.protocol.instruct.validator import ValidationMode
            from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
            from mistral_common.tokens.tokenizers.tekken import is_tekkenizer
        except ImportError as error:
            absent = "mistral-common, which is not installed (warmroute's extra mistral brings it)"
            raise ModelError(f"{path}: needs {absent}") from error
        try:
            pattern = msgspec.json.decode(path.read_bytes(), type=_File).config.pattern
            tokenizer = MistralTokenizer.from_file(str(path), mode=ValidationMode.test)
        except Exception as error:  # it raises whatever its readers do
            raise ModelError(f"{path}: {' '.join(str(error).split())}") from error
        tekken = tokenizer.instruct_tokenizer.tokenizer
        assert is_tekkenizer(tekken), "the file is one"
        encoder = TekkenEncoder(tekken, pattern, cache_bytes)

        def encode(s: str, bos: bool, eos: bool) -> list[int]:
            ids = unpack(encoder.ids(s))
            return [*[tekken.bos_id] * bos, *ids, *[tekken.eos_id] * eos]

        # Chats are encoded text by text; the library has no place of its own to step in.
        tekken.encode = encode  # type: ignore[method-assign]
        return cls(tokenizer, encoder)

    @property
    def method(self) -> str:
        """How ids are computed, for people."""
        return self.encoder.method

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""
        return self.encoder.cache_stats()

    def packed_completion(self, body: Mapping[str, Any]) -> bytes:
        """Packed ids of the first prompt of a /v1/completions body."""
        form = form_of(body, add_special_tokens=True)
        return packed(prompts_of(body)[0], form, self.encoder)

    def packed_chat(self, body: Mapping[str, Any]) -> bytes:
        """Packed ids of a /v1/chat/completions body. Raises RenderError, Unsupported."""
        form = form_of(body, add_special_tokens=False)
        # The library's own BOS is part of every chat; cutting may take it, as it does in engines.
        return packed(self._chat(body), form, self.encoder)

    def prompt(self, body: Mapping[str, Any]) -> str:
        """There is none: ids are made from messages directly."""
        raise Unsupported("mistral-common makes ids of messages, and no text")

    def tokenize(self, text: str, *, add_special_tokens: bool) -> tuple[list[int], list[int]]:
        """Ids of a text; where each begins and ends in it is not known."""
        ids = self.encoder.encode_packed(
            text, add_special_tokens=add_special_tokens, max_tokens=None, cut="left"
        )
        return unpack(ids), []

    def _chat(self, body: Mapping[str, Any]) -> list[int]:
        from mistral_common.exceptions import MistralCommonException
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        conversation(body, parts=True, developer=True)  # refuses what is malformed or media
        given_tools = tools(body.get("tools"))
        continues = fields.flag(body, "continue_final_message", default=False)
        effort = body.get("reasoning_effort")
        try:
            request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(
                messages=[_message(message) for message in body["messages"]],
                tools=given_tools,
                continue_final_message=continues,
                **({} if effort is None else {"reasoning_effort": effort}),
            )
            ids: list[int] = self._tokenizer.encode_chat_completion(request).tokens
        except RenderError:
            raise
        except (
            MistralCommonException,
            LookupError,
            TypeError,
            ValueError,
            AssertionError,
        ) as error:
            raise RenderError(f"mistral-common refuses this: {error}") from error
        return ids


def _message(given: Mapping[str, Any]) -> Message:
    """The fields the library reads; others are an error to it."""
    message = {name: given[name] for name in _MESSAGE_FIELDS if given.get(name) is not None}
    if message["role"] == "developer":
        message["role"] = "system"
    if message["role"] in ("user", "system", "tool"):
        message.setdefault("content", "")
    return message
