"""Sets of characters, as the tokenizers library reads a class in a regular expression."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from tokenizers import NormalizedString, Regex

from tokenizer_sidecar.errors import Unproven

CharSet = npt.NDArray[np.bool_]
"""One truth value per code point. Surrogates are in no set: text that has them is refused."""

CODE_POINTS = 0x110000
_SURROGATES = slice(0xD800, 0xE000)


def none() -> CharSet:
    """The empty set."""
    return np.zeros(CODE_POINTS, dtype=np.bool_)


def everything() -> CharSet:
    """Every character there is."""
    members = np.ones(CODE_POINTS, dtype=np.bool_)
    members[_SURROGATES] = False
    return members


def rust_class(members: CharSet) -> str:
    """The set as a class of explicit ranges, which needs no tables of Unicode to be read."""
    edges = np.flatnonzero(np.diff(members, prepend=False, append=False))
    ranges = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{end - 1:x}}}" for first, end in ranges) + "]"


class Classes:
    """Asks the library which characters a class holds, so that its Unicode version counts.

    Answers are kept for as long as the process runs: tokenizers use the same few classes.
    """

    _known: ClassVar[dict[str, npt.NDArray[np.uint8]]] = {}

    def __init__(self) -> None:
        self._every: NormalizedString | None = None

    def of(self, source: str) -> CharSet:
        """Members of an expression that matches one character. Raises Unproven."""
        known = self._known.get(source)
        if known is None:
            known = self._known[source] = np.packbits(self._ask(source))
        return np.unpackbits(known).view(np.bool_)

    def _ask(self, source: str) -> CharSet:
        if self._every is None:
            characters = np.flatnonzero(everything()).tolist()
            self._every = NormalizedString("".join(map(chr, characters)))
        try:
            others = self._every.split(Regex(f"(?:{source})+"), "removed")
        except Exception as error:  # the library raises bare Exception for what it cannot read
            raise Unproven(f"the pattern has {source!r}: {error}") from error
        members = everything()
        for run in others:
            text = run.normalized
            members[ord(text[0]) : ord(text[-1]) + 1] = False
        if not members.any():
            raise Unproven(f"no character matches {source!r}")
        return members
