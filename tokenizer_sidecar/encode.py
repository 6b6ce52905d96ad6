"""Text to token ids and back, exactly as the engine does it for the same model directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from tokenizers import Tokenizer

from tokenizer_sidecar.errors import InvalidText, ModelError

__all__ = ["Encoder", "InvalidText", "ModelError", "Side"]

Side = Literal["left", "right"]
"""Which end of the prompt is cut off."""


class Encoder:
    """One model's tokenizer. Safe to use from many threads: nothing in it changes after loading.

    Beginning and end tokens are those of the post-processor in tokenizer.json, no others.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        # Reconfiguring a tokenizer that other threads are using fails, so whatever the file asks
        # for is cleared here, once, and cutting is done on each encoding by itself.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._added = tokenizer.num_special_tokens_to_add(False)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read tokenizer.json, or what transformers can make of the directory without it.

        Raises ModelError.
        """
        if not directory.is_dir():
            raise ModelError(f"{directory}: no such directory")
        path = directory / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path)) if path.exists() else _convert(directory)
        except Exception as error:  # both libraries raise bare Exception for files they dislike
            reason = " ".join(str(error).split())
            missing = "" if path.exists() else "not there, and no substitute: "
            raise ModelError(f"{path}: {missing}{reason}") from error
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        """Number of entries, added tokens included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

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
        _require_utf8(text)
        if max_tokens is None:
            return self._encode(text, add_special_tokens)
        added = self._added if add_special_tokens else 0
        # The batch form, here and below, skips the offsets nobody reads: half the time of `encode`.
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        encoding.truncate(max(0, max_tokens - added), direction=cut)
        ids: list[int] = self._tokenizer.post_process(encoding, None, add_special_tokens).ids
        return ids[:max_tokens]

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        (encoding,) = self._tokenizer.encode_batch_fast(
            [text], add_special_tokens=add_special_tokens
        )
        ids: list[int] = encoding.ids
        return ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of the ids; ids beyond the vocabulary give nothing."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text


def _require_utf8(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(f"the text has half a surrogate pair at {error.start}") from error


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
