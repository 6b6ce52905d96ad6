"""What a data plane says beside a message: which endpoints are allowed, and which one answered."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.struct_pb2 import Value

from router.extproc import headers as names
from router.extproc.pb import ext_proc_pb2 as pb

SUBSET_NAMESPACE = "envoy.lb.subset_hint"
SUBSET_KEY = "x-gateway-destination-endpoint-subset"
"""Endpoints a request may go to, as the endpoint picker protocol has it."""

SERVED_KEY = "x-gateway-destination-endpoint-served"
"""In `METADATA_NAMESPACE` of an answer: who gave it, as gateways say."""

ATTRIBUTES = "envoy.filters.http.ext_proc"
UPSTREAM = "upstream.address"
"""The same, as plain Envoy says where it is asked to (``response_attributes``)."""


def subset(message: pb.ProcessingRequest) -> tuple[str, ...] | None:
    """The endpoints a request may go to; None where nothing is said of that."""
    if not message.HasField("metadata_context"):
        return None
    namespaces = message.metadata_context.filter_metadata
    if SUBSET_NAMESPACE not in namespaces:
        return None
    fields = namespaces[SUBSET_NAMESPACE].fields
    return tuple(_texts([fields[SUBSET_KEY]])) if SUBSET_KEY in fields else None


def served(message: pb.ProcessingRequest) -> str:
    """``ip:port`` of the endpoint that answers; empty where nobody says."""
    if message.HasField("metadata_context"):
        namespaces = message.metadata_context.filter_metadata
        if names.METADATA_NAMESPACE in namespaces:
            fields = namespaces[names.METADATA_NAMESPACE].fields
            if SERVED_KEY in fields and fields[SERVED_KEY].string_value:
                return fields[SERVED_KEY].string_value.strip()
    if ATTRIBUTES in message.attributes:
        fields = message.attributes[ATTRIBUTES].fields
        return fields[UPSTREAM].string_value if UPSTREAM in fields else ""
    return ""


def _texts(values: Iterable[Value]) -> Iterable[str]:
    """A list of texts, or one text with commas, as data planes write either."""
    for value in values:
        match value.WhichOneof("kind"):
            case "string_value":
                yield from (part.strip() for part in value.string_value.split(",") if part.strip())
            case "list_value":
                yield from _texts(value.list_value.values)
            case _:
                continue
