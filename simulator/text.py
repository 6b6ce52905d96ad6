"""Answers: which tokens the engine "samples", and how sampled tokens become text.

The tokens are common words drawn by a generator that the prompt seeds, so one prompt always gets
one answer. Text is made token by token, as a stream needs it, and cut at the first stop string.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Sequence

import msgspec
import xxhash

Encode = Callable[[str], list[int]]
Decode = Callable[[Sequence[int]], str]

SHORTEST_STOP, LONGEST_STOP = 18, 30
"""Bounds of an answer that ends by itself, in tokens: about 24."""

_WORDS = """
the a of to and in is it that for on with as by this from or an be at not are have was which all one
can but will if when there their has more other about out so up into than them only some time two
may then do first any my now such like over new see also after our way use how even back where know
just make well should because each those people through same name value list file type set return
code line number data test class string text object module path error key read write call state
"""


class Speaker:
    """Makes answers out of those words that a vocabulary has as one token."""

    def __init__(self, encode: Encode, decode: Decode) -> None:
        self._token_ids = tuple(_single_tokens(encode, decode))
        if not self._token_ids:
            raise ValueError("the vocabulary has not one common word as a single token")

    def answer(
        self, prompt_token_ids: Sequence[int], variant: str, eos_token_id: int | None
    ) -> Iterator[int]:
        """Token ids without end, or up to and with `eos_token_id` if one is given.

        `variant` tells apart answers to one prompt.
        """
        packed = array("Q", prompt_token_ids).tobytes()
        seed = xxhash.xxh3_64_intdigest(packed, seed=xxhash.xxh3_64_intdigest(variant.encode()))
        rng = random.Random(seed)
        if eos_token_id is None:
            while True:
                yield rng.choice(self._token_ids)
        for _ in range(rng.randint(SHORTEST_STOP, LONGEST_STOP) - 1):
            yield rng.choice(self._token_ids)
        yield eos_token_id


def _single_tokens(encode: Encode, decode: Decode) -> Iterator[int]:
    for word in _WORDS.split():
        token_ids = encode(f" {word}")
        if len(token_ids) == 1 and decode(token_ids).strip() == word:
            yield token_ids[0]


class Piece(msgspec.Struct, frozen=True):
    """Text that a token completed, and the stop string that this brought, if any."""

    text: str
    stop: str | None = None


class Transcript:
    """Turns one answer's tokens into text.

    A token may end inside a character: its text comes with the token that completes it. Text that
    could still grow into a stop string is held back.
    """

    def __init__(self, decode: Decode, stops: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stops = tuple(stops)
        self._hold_back = max((len(stop) for stop in self._stops), default=1) - 1
        self._token_ids: list[int] = []
        self._window = 0
        self._read = 0
        self._held = ""

    def push(self, token_id: int, last: bool) -> Piece:
        """The text that is certain after this token; with the `last` one, all that is left."""
        self._token_ids.append(token_id)
        self._held += self._fresh_text(last)
        return self._cut(last)

    def end(self) -> Piece:
        """What is left when the answer ends without a token."""
        self._held += self._fresh_text(last=True)
        return self._cut(last=True)

    def _fresh_text(self, last: bool) -> str:
        """Decodes a window of the latest tokens: neighbours decide how a token looks."""
        seen = self._decode(self._token_ids[self._window : self._read])
        text = self._decode(self._token_ids[self._window :])
        if not last and (text.endswith("\ufffd") or len(text) <= len(seen)):
            return ""
        self._window, self._read = self._read, len(self._token_ids)
        return text[len(seen) :]

    def _cut(self, last: bool) -> Piece:
        found = [(self._held.find(stop), stop) for stop in self._stops if stop in self._held]
        if found:
            at, stop = min(found)
            text, self._held = self._held[:at], ""
            return Piece(text, stop)
        kept = 0 if last else min(self._hold_back, len(self._held))
        text, self._held = (
            self._held[: len(self._held) - kept],
            self._held[len(self._held) - kept :],
        )
        return Piece(text)
