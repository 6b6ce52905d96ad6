"""Byte-pair encoding by tiktoken, with the ids of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tiktoken

from tokenizer_sidecar.added_tokens import AddedTokens
from tokenizer_sidecar.byte_bpe import Ranks

_UNUSED = "\U0010fffe\U0010ffff" * 8
"""tiktoken looks for its own special tokens and is slow without any. This one is not allowed, so it
is text like all others."""


class FastEncoder:
    """Safe to use from many threads; encoding releases the interpreter lock.

    tiktoken finds the added tokens by itself where it finds the same ones as the library: no two
    can overlap, and the text is normalized already. Elsewhere the text is split for it.

    Args:
        slow: What encodes a text that tiktoken gives up on: very long runs of space.
    """

    def __init__(
        self, pattern: str, ranks: Ranks, added: AddedTokens, slow: Callable[[str], bytes]
    ) -> None:
        specials = added.ids if added.apart else {}
        self._encoding = tiktoken.Encoding(
            "engine",
            pat_str=pattern,
            mergeable_ranks=dict(ranks.by_bytes),
            special_tokens={
                text: len(ranks.ids) + i for i, text in enumerate(specials or [_UNUSED])
            },
        )
        self._ids = np.array([*ranks.ids, *specials.values()], dtype=np.uint32)
        self._same = bool(np.array_equal(self._ids, np.arange(len(self._ids))))
        self._lengths = _lengths(ranks.by_bytes, specials)
        self._added = added
        self._slow = slow

    def encode(self, text: str) -> bytes:
        """The text's ids, without any that a post-processor would add."""
        try:
            if self._added.stand_alone(text):
                return self._packed(self._ranks(text))
            return b"".join(
                part.to_bytes(4, "little")
                if isinstance(part, int)
                else self._packed(self._ranks(part))
                for part in self._added.split(text)
            )
        except ValueError:
            return self._slow(text)

    def encode_run(self, pieces: Sequence[str]) -> Sequence[bytes]:
        """The ids of each of a text's pieces, which stand side by side in it.

        Encoded in one call and told apart by the bytes that each id stands for: the ids of the
        whole are those of the pieces.
        """
        text = "".join(pieces)
        if len(pieces) == 1 or not self._added.stand_alone(text):
            return [self.encode(piece) for piece in pieces]
        try:
            ranks = self._ranks(text)
        except ValueError:
            return [self.encode(piece) for piece in pieces]
        ends = np.cumsum([len(piece.encode()) for piece in pieces])
        places = np.searchsorted(np.cumsum(self._lengths.take(ranks), dtype=np.int64), ends) + 1
        packed = self._packed(ranks)
        starts = [0, *places[:-1].tolist()]
        return [
            packed[start * 4 : end * 4] for start, end in zip(starts, places.tolist(), strict=True)
        ]

    def _ranks(self, text: str) -> npt.NDArray[np.uint32]:
        allowed = self._added.found_in(text) if self._added.apart else set[str]()
        return self._encoding.encode_to_numpy(text, allowed_special=allowed, disallowed_special=())

    def _packed(self, ranks: npt.NDArray[np.uint32]) -> bytes:
        ids = ranks if self._same else self._ids.take(ranks)
        return ids.astype("<u4", copy=False).tobytes()


def _lengths(
    by_bytes: Mapping[bytes, int], specials: Mapping[str, int]
) -> npt.NDArray[np.unsignedinteger]:
    """By rank, how many bytes of text a token is. Small numbers, as a large table is a slow one."""
    ordinary = sorted(by_bytes, key=by_bytes.__getitem__)
    texts = [*ordinary, *(text.encode() for text in specials)]
    lengths = list(map(len, texts))
    return np.array(lengths, dtype=np.min_scalar_type(max(lengths)))
