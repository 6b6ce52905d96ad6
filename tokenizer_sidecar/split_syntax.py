"""Split patterns of tokenizers, read into a tree.

What is read is the part of regular expressions on which Oniguruma (the tokenizers library) and
fancy-regex (tiktoken) agree: choices, groups, greedy repeats, and a look at the next character at
the end of a choice. Character classes are sets when the tree is made, so that nothing depends on
either library's tables. Whatever else a pattern has raises Unproven.
"""

from __future__ import annotations

import re

import msgspec

from tokenizer_sidecar.char_sets import CharSet, Classes
from tokenizer_sidecar.errors import Unproven


class Chars(msgspec.Struct, frozen=True, eq=False):
    """One character of a set."""

    members: CharSet


class Series(msgspec.Struct, frozen=True, eq=False):
    """All items, one behind the other."""

    items: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True, eq=False):
    """The first of the options that leads to a match."""

    options: tuple[Node, ...]


class Repeat(msgspec.Struct, frozen=True, eq=False):
    """As often as possible, from `least` to `most` times; `most` None for no limit.

    Attributes:
        possessive: Never gives back what it took.
    """

    item: Node
    least: int
    most: int | None
    possessive: bool = False


Node = Chars | Series | Choice | Repeat


class Look(msgspec.Struct, frozen=True, eq=False):
    """The next character is, or is not, one of the set; at the end of the text it is not."""

    members: CharSet
    negative: bool


class Alternative(msgspec.Struct, frozen=True, eq=False):
    """One top-level choice of a pattern."""

    body: Node
    look: Look | None = None


def parse(source: str, classes: Classes) -> tuple[Alternative, ...]:
    """The pattern's alternatives in their order. Raises Unproven."""
    return _Parser(source, classes).pattern()


_ESCAPE = re.compile(r"\\(?:[pP]\{\^?\w+\}|[sSdDwWrnt]|[^\w\s])")
_BRACKET = re.compile(r"\[\^?(?:\\[pP]\{\^?\w+\}|\\[sSdDwWrnt]|\\[^\w\s]|&(?!&)|[^\\\[\]&])+\]")
_LITERAL = re.compile(r"[^\\\[\](){}|?*+^$.&]")
_QUANTIFIER = re.compile(r"(?:([?*+])(\+?)|\{(\d+)(,?)(\d*)\}(?![+?]))(?!\?)")
_LOOK = re.compile(r"\(\?([!=])")
_FOLDS_FURTHER = re.compile(r"ss|st|ff|fi|fl|[^\0-\x7f]|[(\\]")
"""What may stand, in some case, for a single other character: a match could differ in length."""


class _Parser:
    def __init__(self, source: str, classes: Classes) -> None:
        self._source = source
        self._classes = classes
        self._at = 0
        self._fold_case = False

    def pattern(self) -> tuple[Alternative, ...]:
        found = [self._alternative()]
        while self._take("|"):
            found.append(self._alternative())
        if self._at < len(self._source):
            raise self._unread()
        return tuple(found)

    def _alternative(self) -> Alternative:
        body = self._series()
        if self._source.startswith(("(?!", "(?="), self._at):
            return Alternative(body, self._look())
        return Alternative(body)

    def _look(self) -> Look:
        negative = self._source[self._at + 2] == "!"
        self._at += 3
        members = self._chars()
        if members is None or not self._take(")"):
            raise self._unread()
        return Look(members, negative)

    def _series(self) -> Node:
        items: list[Node] = []
        while (item := self._item()) is not None:
            items.append(self._repeated(item))
        if not items:
            raise self._unread()
        return items[0] if len(items) == 1 else Series(tuple(items))

    def _item(self) -> Node | None:
        if self._take("(?i:"):
            return self._ignoring_case()
        if self._take("(?:"):
            return self._group()
        members = self._chars()
        return None if members is None else Chars(members)

    def _ignoring_case(self) -> Node:
        end = self._source.find(")", self._at)
        if (
            self._fold_case
            or end < 0
            or _FOLDS_FURTHER.search(self._source[self._at : end].lower())
        ):
            raise self._unread()
        self._fold_case = True
        group = self._group()
        self._fold_case = False
        return group

    def _group(self) -> Node:
        options = [self._series()]
        while self._take("|"):
            options.append(self._series())
        if not self._take(")"):
            raise self._unread()
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _repeated(self, item: Node) -> Node:
        match = _QUANTIFIER.match(self._source, self._at)
        if match is None:
            if self._source.startswith(("?", "*", "+", "{"), self._at):
                raise self._unread()
            return item
        self._at = match.end()
        sign, possessive, least, comma, most = match.groups()
        if sign is not None:
            bounds = {"?": (0, 1), "*": (0, None), "+": (1, None)}[sign]
            return Repeat(item, *bounds, possessive=bool(possessive))
        if not comma:
            return Repeat(item, int(least), int(least))
        return Repeat(item, int(least), int(most) if most else None)

    def _chars(self) -> CharSet | None:
        for form in (_ESCAPE, _BRACKET, _LITERAL):
            if match := form.match(self._source, self._at):
                self._at = match.end()
                text = match.group()
                literal = re.escape(text) if form is _LITERAL else text
                return self._classes.of(f"(?i:{literal})" if self._fold_case else literal)
        return None

    def _take(self, text: str) -> bool:
        taken = self._source.startswith(text, self._at)
        self._at += len(text) * taken
        return taken

    def _unread(self) -> Unproven:
        rest = self._source[self._at : self._at + 20]
        return Unproven(f"the split pattern is not understood at {rest!r}")
