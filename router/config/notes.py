"""What a configuration's author should be told, though it runs."""

from __future__ import annotations

import enum

import msgspec


class NoteKind(enum.StrEnum):
    """Why something is told.

    FILLED_IN was left out and is made; DEPRECATED has a newer name and works; NO_EFFECT is a
    parameter that steers a choice which is made otherwise here; INACTIVE is a part that does not
    run; WARNING cannot have the effect somebody hoped for.
    """

    FILLED_IN = "filled in"
    DEPRECATED = "deprecated"
    NO_EFFECT = "no effect"
    INACTIVE = "inactive"
    WARNING = "warning"


class Note(msgspec.Struct, frozen=True):
    """One remark.

    Attributes:
        path: The place of the file it is about.
    """

    kind: NoteKind
    text: str
    path: str

    def __str__(self) -> str:
        return f"{self.text} - at `{self.path}`"


def filled_in(text: str, path: str) -> Note:
    return Note(NoteKind.FILLED_IN, text, path)


def deprecated(text: str, path: str) -> Note:
    return Note(NoteKind.DEPRECATED, text, path)


def no_effect(text: str, path: str) -> Note:
    return Note(NoteKind.NO_EFFECT, text, path)


def inactive(text: str, path: str) -> Note:
    return Note(NoteKind.INACTIVE, text, path)


def warning(text: str, path: str) -> Note:
    return Note(NoteKind.WARNING, text, path)
