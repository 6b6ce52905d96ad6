"""Our part of Envoy's API against Envoy's own, as another implementation knows it.

Every message, field and enum value of proto/ext_proc.proto is looked up in envoy-data-plane by its
name and sent across both ways, so a wrong number, type or enum value shows. What is declared is
what is tested: a new field needs no new test.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as ext_proc_filter
from envoy_data_plane.envoy.service.ext_proc import v3 as service
from envoy_data_plane.envoy.type import v3 as type_
from envoy_data_plane.google.protobuf import Struct
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from router.extproc.pb import ext_proc_pb2 as pb

ORACLES: tuple[ModuleType, ...] = (service, core, ext_proc_filter, type_)
STRUCT = "google.protobuf.Struct"

EMPTY: tuple[Any, ...] = (None, [], {}, "", b"", 0)
"""Values of fields that are not set."""

SAMPLES: Mapping[int, Any] = {
    FieldDescriptor.TYPE_STRING: "x-request-id",
    FieldDescriptor.TYPE_BYTES: b"\x00\xff",
    FieldDescriptor.TYPE_BOOL: True,
    FieldDescriptor.TYPE_INT32: 429,
}


def messages() -> Iterator[Descriptor]:
    """Every message we declare, entries of maps apart."""
    waiting = list(pb.DESCRIPTOR.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        if not message.GetOptions().map_entry:
            yield message
        waiting += message.nested_types


def fields() -> list[Any]:
    return [
        pytest.param(message, field, id=f"{message.name}.{field.name}")
        for message in messages()
        for field in message.fields
    ]


def enums() -> list[Any]:
    declared = [*pb.DESCRIPTOR.enum_types_by_name.values()]
    declared += [nested for message in messages() for nested in message.enum_types]
    return [pytest.param(found, id=found.name) for found in declared]


@pytest.mark.parametrize(("message", "field"), fields())
def test_what_we_write_is_read_as_meant(message: Descriptor, field: FieldDescriptor) -> None:
    value = sample(field)
    written = ours(message, {field.name: value}).SerializeToString()
    assert plain(oracle(message).parse(written)) == {field.name: value}


@pytest.mark.parametrize(("message", "field"), fields())
def test_what_others_write_we_read_as_meant(message: Descriptor, field: FieldDescriptor) -> None:
    value = sample(field)
    written = bytes(theirs(message, {field.name: value}))
    assert GetMessageClass(message).FromString(written) == ours(message, {field.name: value})


@pytest.mark.parametrize("declared", enums())
def test_enum_values_are_envoys(declared: EnumDescriptor) -> None:
    known = {member.name: member.value for member in oracle_enum(declared)}
    assert {value.name: value.number for value in declared.values} == known


def test_the_service_has_envoys_name() -> None:
    (declared,) = pb.DESCRIPTOR.services_by_name.values()
    (method,) = declared.methods
    path = f"/{declared.full_name}/{method.name}"
    assert path in service.ExternalProcessorBase().__mapping__()


def sample(field: FieldDescriptor) -> Any:
    """A value no default equals; of messages, every field that can stand beside the others."""
    value: Any
    if is_map(field):
        return {"key": {"inner": {"a": "b"}}}
    if field.message_type is not None and field.message_type.full_name == STRUCT:
        value = {"inner": {"a": "b"}}
    elif field.message_type is not None:
        value = {f.name: sample(f) for f in together(field.message_type)}
    elif field.enum_type is not None:
        value = max(value.number for value in field.enum_type.values)
    else:
        value = SAMPLES[field.type]
    return [value, value] if field.is_repeated else value


def together(message: Descriptor) -> Iterator[FieldDescriptor]:
    """Its fields, only the first of each oneof."""
    for field in message.fields:
        if field.containing_oneof is None or field.containing_oneof.fields[0] is field:
            yield field


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


def ours(message: Descriptor, values: Mapping[str, Any]) -> Message:
    """Our message of plain values; bytes are told as they are."""
    built = GetMessageClass(message)()
    for name, value in values.items():
        field = message.fields_by_name[name]
        if is_map(field):
            for key, inner in value.items():
                json_format.ParseDict(inner, getattr(built, name)[key])
        elif field.message_type is None:
            set_scalar(built, field, value)
        elif field.message_type.full_name == STRUCT:
            json_format.ParseDict(value, getattr(built, name))
        elif field.is_repeated:
            getattr(built, name).extend(ours(field.message_type, item) for item in value)
        else:
            getattr(built, name).CopyFrom(ours(field.message_type, value))
    return built


def set_scalar(message: Message, field: FieldDescriptor, value: Any) -> None:
    if field.is_repeated:
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, value)


def theirs(message: Descriptor, values: Mapping[str, Any]) -> Any:
    """The oracle's message of the same plain values."""
    return oracle(message)(
        **{name: their_value(message.fields_by_name[name], v) for name, v in values.items()}
    )


def their_value(field: FieldDescriptor, value: Any) -> Any:
    if is_map(field):
        return {key: Struct.from_dict(inner) for key, inner in value.items()}
    if field.message_type is None:
        return value
    if field.message_type.full_name == STRUCT:
        return Struct.from_dict(value)
    if field.is_repeated:
        return [theirs(field.message_type, item) for item in value]
    return theirs(field.message_type, value)


def plain(value: Any) -> Any:
    """An oracle's value without its class; fields at their default are left out."""
    if isinstance(value, Struct):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        named = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {name: inner for name, inner in named.items() if inner not in EMPTY}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return int(value) if isinstance(value, enum.IntEnum) else value


def oracle(message: Descriptor) -> Any:
    """The class of the same name."""
    return next(getattr(m, message.name) for m in ORACLES if hasattr(m, message.name))


def oracle_enum(declared: EnumDescriptor) -> Any:
    """The enum of the same name; the oracle puts the enclosing message's name before it."""
    parent = declared.containing_type.name if declared.containing_type else "ProcessingMode"
    name = parent + declared.name
    return next(getattr(m, name) for m in ORACLES if hasattr(m, name))
