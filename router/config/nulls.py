"""Null in a configuration: a field without a value is as good as one that is left out, as in Go."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TypeVar

import msgspec.inspect

_K = TypeVar("_K", bound=msgspec.inspect.Type)


def left_out(data: object, cls: type) -> object:
    """The data that becomes `cls`, without the fields that are null."""
    return _without(data, _kind(cls))


@functools.cache
def _kind(cls: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(cls)


def _without(data: object, kind: msgspec.inspect.Type) -> object:
    """Only a struct's fields are left out.

    What a mapping with names of its own means by null, such as a label without a value, is said by
    the type of its values.
    """
    if isinstance(data, dict):
        for struct in _as(kind, msgspec.inspect.StructType):
            kinds = {field.encode_name: field.type for field in struct.fields}
            return {
                key: _without(value, kinds[key]) if key in kinds else value
                for key, value in data.items()
                if value is not None or key not in kinds
            }
    if isinstance(data, list):
        for items in (
            *_as(kind, msgspec.inspect.ListType),
            *_as(kind, msgspec.inspect.VarTupleType),
        ):
            return [_without(item, items.item_type) for item in data]
    return data


def _as(kind: msgspec.inspect.Type, wanted: type[_K]) -> Iterator[_K]:
    """The kind itself or, of a union, what it may be, as far as that is wanted."""
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return (each for each in kinds if isinstance(each, wanted))
