"""Byte-pair encoding by tiktoken, with the ids of a tokenizer.json."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tiktoken

from tokenizer_sidecar.added_tokens import AddedTokens
from tokenizer_sidecar.byte_bpe import Ranks

_UNUSED = "\U0010fffe\U0010ffff" * 8
"""tiktoken looks for its own special tokens and is slow without any. This one is not allowed, so it
is text like all others."""


class FastEncoder:
    """Safe to use from many threads; encoding releases the interpreter lock.

    Args:
        slow: What encodes a text that tiktoken gives up on: very long runs of space.
    """

    def __init__(
        self, pattern: str, ranks: Ranks, added: AddedTokens, slow: Callable[[str], bytes]
    ) -> None:
        self._encoding = tiktoken.Encoding(
            "engine",
            pat_str=pattern,
            mergeable_ranks=dict(ranks.by_bytes),
            special_tokens={_UNUSED: len(ranks.ids)},
        )
        self._ids = ranks.ids
        self._same = bool(np.array_equal(ranks.ids, np.arange(len(ranks.ids))))
        self._added = added
        self._slow = slow

    def encode(self, text: str) -> bytes:
        """The text's ids, without any that a post-processor would add."""
        try:
            return b"".join(
                part.to_bytes(4, "little") if isinstance(part, int) else self._ordinary(part)
                for part in self._added.split(text)
            )
        except ValueError:
            return self._slow(text)

    def _ordinary(self, text: str) -> bytes:
        ranks = self._encoding.encode_to_numpy(text, disallowed_special=())
        ids = ranks if self._same else self._ids[ranks]
        return ids.astype("<u4", copy=False).tobytes()
