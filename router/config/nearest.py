"""What was probably meant: the nearest valid name, and what a place of a file takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

import msgspec.inspect

_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`(?: - at `(?P<path>[^`]*)`)?")
_WRONG = re.compile(r"Invalid enum value '(?P<name>[^']*)'(?: - at `(?P<path>[^`]*)`)?")
_PATTERN = re.compile(r"Expected `str` matching regex .*?(?: - at `(?P<path>[^`]*)`)?$")
_STEP = re.compile(r"\.([^.\[\]]+)|(\[)[^\]]*\]")


def suggest(given: str, known: Iterable[str]) -> str:
    """A clause for a message: the nearest known name, or all of them where none is near."""
    names = sorted(known)
    meant = near(given, names)
    return f"did you mean {meant!r}?" if meant else f"known: {', '.join(names) or 'none'}"


def near(given: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The nearest known name, if one is near at all: as alike as `cutoff`, of 1."""
    folded = {_fold(name): name for name in sorted(known)}
    found = difflib.get_close_matches(_fold(given), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else None


def with_suggestion(message: str, cls: type) -> str:
    """A message of msgspec about an unknown field or value, with the one that was probably meant,
    or about text of another form, with an example.

    `cls` is what was decoded; the message's path counts from there.
    """
    form = _PATTERN.search(message)
    if form is not None:
        return _with_example(message, cls, form["path"] or "$")
    field, value = _UNKNOWN.search(message), _WRONG.search(message)
    told = field or value
    if told is None:
        return message
    kinds = _at(msgspec.inspect.type_info(cls), told["path"] or "$")
    opened = list(_opened(kinds))
    known = _fields(opened) if field else _values(opened)
    clause = suggest(told["name"], known) if known else "it takes none"
    at = told.start() + len(told[0].partition(" - at `")[0])
    return f"{message[:at]}; {clause}{message[at:]}"


def _with_example(message: str, cls: type, path: str) -> str:
    """Instead of a pattern, where the type has an example of it."""
    for kind in _at(msgspec.inspect.type_info(cls), path):
        if isinstance(kind, msgspec.inspect.Metadata) and kind.extra_json_schema:
            for example in kind.extra_json_schema.get("examples", ()):
                at = message.find(" - at `")
                return f"expected text such as {example!r}{message[at:] if at >= 0 else ''}"
    return message


def _fold(name: str) -> str:
    return name.lower().replace("_", "-")


def _at(kind: msgspec.inspect.Type, path: str) -> list[msgspec.inspect.Type]:
    """Whatever may stand at a path below a type."""
    kinds = [kind]
    for step in _STEP.finditer(path):
        kinds = [inner for k in _opened(kinds) for inner in _below(k, step[1])]
    return kinds


def _fields(kinds: Iterable[msgspec.inspect.Type]) -> list[str]:
    structs = (kind for kind in kinds if isinstance(kind, msgspec.inspect.StructType))
    return [field.encode_name for struct in structs for field in struct.fields]


def _values(kinds: Iterable[msgspec.inspect.Type]) -> list[str]:
    found: list[str] = []
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.LiteralType):
            found += map(str, kind.values)
        elif isinstance(kind, msgspec.inspect.EnumType):
            found += (str(member.value) for member in kind.cls)
    return found


def _opened(kinds: Iterable[msgspec.inspect.Type]) -> Iterator[msgspec.inspect.Type]:
    """The kinds themselves, without what is said about them, and of a union what it may be."""
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.Metadata):
            yield from _opened([kind.type])
        elif isinstance(kind, msgspec.inspect.UnionType):
            yield from _opened(kind.types)
        else:
            yield kind


def _below(kind: msgspec.inspect.Type, name: str | None) -> Iterator[msgspec.inspect.Type]:
    """What a field of that name, or an item where there is none, has for a type."""
    if isinstance(kind, msgspec.inspect.StructType) and name is not None:
        yield from (field.type for field in kind.fields if field.encode_name == name)
    elif isinstance(kind, msgspec.inspect.DictType):
        yield kind.value_type
    elif isinstance(kind, msgspec.inspect.ListType | msgspec.inspect.VarTupleType):
        yield kind.item_type
