"""Where a text can be cut so that its parts, encoded apart, give the ids of the whole.

A cut lies between two characters. It is safe where three things hold:

    no added token's text has the two side by side, and none depends on what stands around it
    normalizing changes neither side because of the other
    no token is made of both sides. Either the pre-tokenizer always ends a piece there, whatever
    the model's entries are; or there is no pre-tokenizer, and no entry has the two side by side.

Whether they hold is found out once, for groups of characters that behave alike. A special token is
a safe place too, just before it. Parts are about 4 KB, and where one ends depends only on the text
from its beginning to a little beyond its end, so texts that begin alike have the same first parts.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from os.path import commonprefix

import numpy as np
import numpy.typing as npt

from tokenizer_sidecar.added_tokens import AddedTokens, Normalize, any_of
from tokenizer_sidecar.split_pattern import SplitPattern
from tokenizer_sidecar.tokenizer_json import BpeModel

PIECE_CHARS = 4096
"""A part is at least this long, except before a special token and at the end."""

_SHORTEST = 1 / 16
"""Of that length. Special tokens closer to the start of a part stay in it: short parts cost more to
look up than they save."""

Joined = npt.NDArray[np.bool_]
"""For groups left and right of a place: whether it is no safe one."""


def _range(first: str, last: str) -> str:
    return "".join(map(chr, range(ord(first), ord(last) + 1)))


GROUPS: Sequence[str] = (
    string.ascii_letters,
    string.digits,
    *string.punctuation,
    " ",
    "\t",
    "\n",
    "\u3001\u3002\uff01\uff0c\uff1a\uff1b\uff1f",
    _range("\u4e00", "\u9fa5"),
    _range("\u3041", "\u3096") + _range("\u30a1", "\u30fa"),
    _range("\uac00", "\ud7a3"),
)
"""Characters between which cuts are sought: ASCII, East Asian punctuation, ideographs, kana and
Hangul. None of them ever combines with a character before it when text is normalized."""

_LOOK_CHARS = 64
"""How far a space is looked for before any other place will do: it is found in no time."""

_NOTHING: Mapping[str, str] = {}

_GROUP_OF = {character: i for i, group in enumerate(GROUPS) for character in group}


class Cutter:
    """Cuts texts for one tokenizer.

    Args:
        joined: Places that are not safe.
        piece_chars: How long a part is at least.
    """

    def __init__(
        self, joined: Joined, added: AddedTokens, *, piece_chars: int = PIECE_CHARS
    ) -> None:
        self._piece_chars = piece_chars
        self._min_chars = int(piece_chars * _SHORTEST)
        self._look_chars = min(piece_chars, _LOOK_CHARS)
        safe = _between(~joined)
        self._safe = re.compile(safe) if safe else None
        before = "".join(
            g for g, no in zip(GROUPS, joined[:, _GROUP_OF[" "]], strict=True) if not no
        )
        self._space = re.compile(f" (?<=[{_ranges(before)}] )") if before else None
        self._separator = re.compile(any_of(added.separators))
        self._beginning = commonprefix(list(added.separators))  # noqa: RUF071 - characters are meant
        """Of all separators. Searching for it is much faster than for any of them."""
        self._signs = _signs(added.separators)
        """In all separators. Searching for a single character is much faster still."""

    def pieces(self, text: str, following: Mapping[str, str] = _NOTHING) -> Iterator[str]:
        """The text's parts; one if there is no place to cut.

        Args:
            following: A part to one that was seen behind it. Where that comes again it is given out
                itself, which takes a comparison and no search.
        """
        start, safe, length = 0, 0, len(text)
        expected: str | None = None
        while length - start > self._min_chars:
            # Looked for only when passed, so that a text without such places is read once.
            if safe < start + self._piece_chars:
                safe = self._next_safe(text, start + self._piece_chars)
            piece = self._first_of(text, start, safe, expected)
            yield piece
            start += len(piece)
            expected = following.get(piece)
        if start < length or not length:
            yield text[start:]

    def _next_safe(self, text: str, start: int) -> int:
        if start >= len(text) or self._safe is None:
            return len(text)
        match = self._space.search(text, start, start + self._look_chars) if self._space else None
        match = match or self._safe.search(text, start)
        return match.start() if match else len(text)

    def _first_of(self, text: str, start: int, safe: int, expected: str | None) -> str:
        """The text from here to the safe place, or to a separator before it."""
        if safe - start > 2 * self._piece_chars:
            return text[start : self._separator_before(text, start + self._min_chars, safe)]
        # Most parts of a wide text are narrow, and searching those takes a fraction.
        piece = text[start:safe]
        if piece == expected:
            return expected  # itself a part, so there is no separator in it
        return piece[: self._separator_before(piece, self._min_chars, len(piece))]

    def _separator_before(self, text: str, start: int, end: int) -> int:
        """Where the first separator begins, or the end, which is no place inside of one."""
        if not self._beginning:
            return end
        for sign in self._signs:
            if text.find(sign, start, end) < 0:
                return end
        at = text.find(self._beginning, start, end)
        while at >= 0 and not self._separator.match(text, at, end):
            at = text.find(self._beginning, at + 1, end)
        return end if at < 0 else at


def _signs(texts: Collection[str]) -> Sequence[str]:
    """The characters that all texts have and words do not."""
    shared = set.intersection(*map(set, texts)) if texts else set[str]()
    return sorted(character for character in shared if not character.isalnum())


def between_pieces(pattern: SplitPattern) -> Joined:
    """Places where the pre-tokenizer does not end a piece in every case."""
    members = [np.array([ord(c) for c in group], dtype=np.intp) for group in GROUPS]
    return pattern.reach().joined(members, members)


def between_entries(model: BpeModel, normalize: Normalize) -> Joined:
    """Places where some entry of the model goes on, for models without a pre-tokenizer.

    Only for normalizers that change each character by itself.
    """
    shown = {character: normalize(character) for character in _GROUP_OF}
    known = _apart_unless_entries(model)
    joined = np.zeros((len(GROUPS), len(GROUPS)), dtype=np.bool_)
    group_of: dict[str, int] = {}
    for character, i in _GROUP_OF.items():
        text = shown[character]
        if len(text) != 1 or not (known or text in model.vocab):
            joined[i, :] = joined[:, i] = True
        group_of.setdefault(text, i)
        if group_of[text] != i:
            joined[i, :] = joined[:, i] = True
    _mark(joined, model.vocab, group_of)
    return joined


def _apart_unless_entries(model: BpeModel) -> bool:
    """Characters that are no entries become bytes, and bytes are never joined with anything."""
    single = {f"<0x{value:02X}>" for value in range(256)}
    parts = {part for pair in model.pairs() for part in pair}
    return model.byte_fallback and single <= model.vocab.keys() and not single & parts


def between_added(added: AddedTokens) -> Joined:
    """Places where some added token goes on."""
    joined = np.zeros((len(GROUPS), len(GROUPS)), dtype=np.bool_)
    _mark(joined, added.texts, _GROUP_OF)
    return joined


def _mark(joined: Joined, texts: Iterable[str], group_of: Mapping[str, int]) -> None:
    for text in texts:
        groups = [group_of.get(character) for character in text]
        for left, right in pairwise(groups):
            if left is not None and right is not None:
                joined[left, right] = True


def _between(safe: Joined) -> str:
    """A pattern for the empty text at every safe place."""
    rights: dict[bytes, str] = {}
    lefts: dict[bytes, str] = {}
    for i, group in enumerate(GROUPS):
        column = safe[:, i]
        key = column.tobytes()
        rights[key] = rights.get(key, "") + group
        lefts[key] = "".join(left for left, is_safe in zip(GROUPS, column, strict=True) if is_safe)
    return "|".join(
        f"(?<=[{_ranges(lefts[key])}])(?=[{_ranges(right)}])"
        for key, right in rights.items()
        if lefts[key]
    )


def _ranges(characters: str) -> str:
    """The inside of a class; written as ranges where it is long."""
    points = sorted(map(ord, characters))
    starts = [p for i, p in enumerate(points) if i == 0 or points[i - 1] != p - 1]
    ends = [p for i, p in enumerate(points) if i + 1 == len(points) or points[i + 1] != p + 1]
    return "".join(
        f"\\U{first:08x}-\\U{last:08x}" for first, last in zip(starts, ends, strict=True)
    )
