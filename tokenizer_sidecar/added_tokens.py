"""Texts that a tokenizer turns into one id each before it does anything else.

Some are looked for in the text as it is, the others in what those leave, after normalizing it.
Leftmost first, of those that begin at the same place the longest. Tokens that also take space
around them, or only stand for whole words, are not handled here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from os.path import commonprefix

from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import AddedToken

Normalize = Callable[[str], str]


class AddedTokens:
    """The tokens of one tokenizer. Raises Unproven where they are more than plain texts."""

    def __init__(
        self, tokens: Sequence[AddedToken], id_of: Mapping[str, int], normalize: Normalize
    ) -> None:
        for token in tokens:
            if token.lstrip or token.rstrip or token.single_word:
                raise Unproven(f"the token {token.content!r} depends on what stands around it")
        self._normalize = normalize
        self._raw = _Finder({t.content: id_of[t.content] for t in tokens if not t.normalized})
        self._normalized = _Finder(
            {normalize(t.content): id_of[t.content] for t in tokens if t.normalized}
        )
        self.ids = {**self._raw.ids, **self._normalized.ids}
        """Of everything that is looked for."""
        self.apart = _apart(self.ids)
        """No two of the texts can overlap, so that the order they are sought in does not matter."""
        self._any = re.compile(any_of(self.ids))
        specials = {t.content for t in tokens if t.special and not t.normalized}
        self.separators = _never_hidden(specials, self._raw.ids)
        """Special tokens that are one wherever their text stands."""

    @property
    def texts(self) -> set[str]:
        """Everything that is looked for."""
        return set(self.ids)

    def found_in(self, text: str) -> set[str]:
        """Which of the texts stand in a normalized text. For texts that are apart."""
        return set(self._any.findall(text)) if self.ids else set()

    def stand_alone(self, text: str) -> bool:
        """Normalizing changes nothing, so that looking for all the texts at once finds the same."""
        return self.apart and self._normalize(text) == text

    def split(self, text: str) -> Iterator[str | int]:
        """The ids of added tokens, and what is between them in normalized form."""
        for part in self._raw.split(text):
            if isinstance(part, int):
                yield part
            else:
                yield from self._normalized.split(self._normalize(part))


class _Finder:
    def __init__(self, ids: Mapping[str, int]) -> None:
        self.ids = {text: id_ for text, id_ in ids.items() if text}
        self._pattern = re.compile(any_of(self.ids)) if self.ids else None

    def split(self, text: str) -> Iterator[str | int]:
        end = 0
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                if match.start() > end:
                    yield text[end : match.start()]
                yield self.ids[match.group()]
                end = match.end()
        if end < len(text):
            yield text[end:] if end else text


def any_of(texts: Iterable[str]) -> str:
    """A pattern for the longest of the texts at a place. Common beginnings are tried once."""
    rests: dict[str, list[str]] = {}
    for text in texts:
        rests.setdefault(text[:1], []).append(text[1:])
    ends_here = rests.pop("", None) is not None
    options = [_together(first, others) for first, others in rests.items()]
    if not options:
        return ""
    return f"(?:{'|'.join(options)}){'?' if ends_here else ''}"


def _together(first: str, rests: Sequence[str]) -> str:
    shared = commonprefix(rests)  # noqa: RUF071 - characters are meant, not paths
    beyond = any_of(rest[len(shared) :] for rest in rests)
    return re.escape(first + shared) + beyond


def _apart(texts: Iterable[str]) -> bool:
    """None begins with another, and none begins at a later place in another."""
    ordered = sorted(texts)
    firsts = {text[0] for text in ordered}
    return not any(later.startswith(earlier) for earlier, later in pairwise(ordered)) and all(
        firsts.isdisjoint(text[1:]) for text in ordered
    )


def _never_hidden(candidates: Set[str], texts: Iterable[str]) -> frozenset[str]:
    """Those that no other text can cover from before their first character."""
    hidden: set[str] = set()
    by_beginning: dict[str, set[str]] = {}
    for text in candidates:
        for end in range(1, len(text) + 1):
            by_beginning.setdefault(text[:end], set()).add(text)
    for text in texts:
        for start in range(1, len(text)):
            hidden |= by_beginning.get(text[start:], set())
            hidden |= {text[start:end] for end in range(start, len(text))} & candidates
    return frozenset(candidates - hidden)
