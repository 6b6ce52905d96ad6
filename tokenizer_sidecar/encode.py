"""Text to token ids and back, exactly as the engine does it for the same model directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from tokenizers import Encoding, Tokenizer

from tokenizer_sidecar import shortcuts
from tokenizer_sidecar.cache import CacheStats, PieceCache
from tokenizer_sidecar.cuts import PIECE_CHARS
from tokenizer_sidecar.errors import InvalidText, ModelError
from tokenizer_sidecar.post_processing import WORD_BYTES, Frame, pack, unpack
from tokenizer_sidecar.shortcuts import Method

__all__ = ["CACHE_BYTES", "Encoder", "InvalidText", "Method", "ModelError", "Side"]

Side = Literal["left", "right"]
"""Which end of the prompt is cut off."""

CACHE_BYTES = 128 * 1024 * 1024
"""Room for the text and ids of 10 to 15 million tokens per model: 9 bytes each in plain ASCII."""


class Encoder:
    """One model's tokenizer. Safe to use from many threads.

    Beginning and end tokens are those of the post-processor in tokenizer.json, no others.

    Args:
        tokenizer: What the tokenizers library loaded.
        content: The tokenizer.json it came from; None where it came from elsewhere.
        cache_bytes: Most memory for the ids of texts seen before.
        piece_chars: How long the pieces are whose ids are kept.
        prove: Look for shortcuts, which takes about a second.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        content: bytes | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
        piece_chars: int = PIECE_CHARS,
        prove: bool = True,
    ) -> None:
        # Reconfiguring a tokenizer that other threads are using fails, so whatever the file asks
        # for is cleared here, once, and cutting is done on the ids.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.found = shortcuts.NONE
        """What was proven for this tokenizer."""
        if prove:
            self.found = shortcuts.find(
                content or tokenizer.to_str(), tokenizer, self._by_library, piece_chars
            )
        self._cache = PieceCache(cache_bytes)

    @classmethod
    def load(cls, directory: Path, *, cache_bytes: int = CACHE_BYTES, prove: bool = True) -> Self:
        """Read tokenizer.json, or what transformers can make of the directory without it.

        Raises ModelError.
        """
        if not directory.is_dir():
            raise ModelError(f"{directory}: no such directory")
        path = directory / "tokenizer.json"
        content = None
        try:
            if path.exists():
                content = path.read_bytes()
                tokenizer = Tokenizer.from_buffer(content)
            else:
                tokenizer = _convert(directory)
            return cls(tokenizer, content, cache_bytes=cache_bytes, prove=prove)
        except Exception as error:  # both libraries raise bare Exception for files they dislike
            reason = " ".join(str(error).split())
            missing = "" if path.exists() else "not there, and no substitute: "
            raise ModelError(f"{path}: {missing}{reason}") from error

    @property
    def vocab_size(self) -> int:
        """Number of entries, added tokens included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @property
    def method(self) -> Method:
        """How ids are computed, and why not faster."""
        return self.found.method

    def cache_stats(self) -> CacheStats:
        """How often texts had been seen before."""
        return self._cache.stats()

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        max_tokens: int | None = None,
        cut: Side = "left",
    ) -> list[int]:
        """Token ids of the text; at most max_tokens of them, special tokens included.

        Cutting spares the special tokens, so a shortened prompt still begins with its BOS.
        Raises InvalidText.
        """
        packed = self.encode_packed(
            text, add_special_tokens=add_special_tokens, max_tokens=max_tokens, cut=cut
        )
        return unpack(packed)

    def encode_packed(
        self,
        text: str,
        *,
        add_special_tokens: bool,
        max_tokens: int | None = None,
        cut: Side = "left",
    ) -> bytes:
        """As `encode`, but the ids as little-endian 32-bit numbers. Raises InvalidText."""
        frame = self.found.frame
        if frame is None:
            require_utf8(text)
            return self._framed_by_library(text, add_special_tokens, max_tokens, cut)
        if not add_special_tokens:
            frame = Frame()
        ids = self._ids(text)
        if max_tokens is None:
            return frame.around(ids)
        kept = max(0, max_tokens - frame.tokens) * WORD_BYTES
        ids = ids[:kept] if cut == "right" else ids[max(0, len(ids) - kept) :]
        return frame.around(ids)[: max_tokens * WORD_BYTES]

    def encode_with_offsets(
        self, text: str, *, add_special_tokens: bool
    ) -> tuple[list[int], list[int]]:
        """Ids, and where in the text each begins and ends, one pair after the other.

        Always by the library and as a whole. Raises InvalidText.
        """
        require_utf8(text)
        encoding = self._tokenizer.encode(text, add_special_tokens=add_special_tokens)
        return encoding.ids, [place for pair in encoding.offsets for place in pair]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of the ids; ids beyond the vocabulary give nothing."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def _ids(self, text: str) -> bytes:
        """Packed ids of the text alone; only pieces not seen before are encoded."""
        cutter = self.found.cutter
        pieces = [text] if cutter is None else cutter.pieces(text, self._cache.following)
        return self._cache.through(pieces, self._new)

    def _new(self, pieces: Sequence[str]) -> Sequence[bytes]:
        """Ids of each of some neighbouring pieces. Raises InvalidText."""
        # Text that was seen before has been found good then.
        for piece in pieces:
            require_utf8(piece)
        if self.found.fast is not None:
            return self.found.fast.encode_run(pieces)
        # One by one: the library takes threads of its own for several at once.
        return [self._by_library(piece) for piece in pieces]

    def _by_library(self, text: str) -> bytes:
        return pack(self._encoding(text, add_special_tokens=False).ids)

    def _encoding(self, text: str, *, add_special_tokens: bool) -> Encoding:
        # The batch form skips the offsets nobody reads: half the time of `encode`.
        (encoding,) = self._tokenizer.encode_batch_fast(
            [text], add_special_tokens=add_special_tokens
        )
        return encoding

    def _framed_by_library(
        self, text: str, add_special_tokens: bool, max_tokens: int | None, cut: Side
    ) -> bytes:
        if max_tokens is None:
            return pack(self._encoding(text, add_special_tokens=add_special_tokens).ids)
        added = self._tokenizer.num_special_tokens_to_add(False) if add_special_tokens else 0
        encoding = self._encoding(text, add_special_tokens=False)
        encoding.truncate(max(0, max_tokens - added), direction=cut)
        whole = self._tokenizer.post_process(encoding, None, add_special_tokens)
        return pack(whole.ids[:max_tokens])


def require_utf8(text: str) -> None:
    """Raises InvalidText where the text has no UTF-8 form."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText("the text has half a surrogate pair") from error


def _convert(directory: Path) -> Tokenizer:
    # Seconds to import, and needed only for directories without a tokenizer.json.
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(
        str(directory), local_files_only=True, trust_remote_code=False
    )
    tokenizer = getattr(loaded, "backend_tokenizer", None)
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"{type(loaded).__name__} does not use the tokenizers library")
    return tokenizer
