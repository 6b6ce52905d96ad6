"""The endpoints file, as typed structs: keys as written, unknown ones refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
ZmqAddress = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(tcp://[^\s*/]+:[0-9]{1,5}|ipc://\S+)$",
        max_length=1024,
        examples=["tcp://10.0.0.1:5557"],
    ),
]
"""An address to connect to, so not the ``tcp://*:5557`` of an engine that binds."""

Rank = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Strict(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Unknown keys are errors."""


class KvEventsEntry(_Strict, frozen=True):
    """Where KV events come from; without a rank they are those of the endpoint's own rank."""

    endpoint: ZmqAddress
    replay: ZmqAddress | None = None
    rank: Rank | None = None


class EndpointEntry(_Strict, frozen=True):
    """One endpoint as written; whether address and port make sense is judged later."""

    name: Name
    address: str
    port: int | str
    namespace: Name = "default"
    labels: Mapping[str, str] = {}
    rank: Rank | None = None
    kv_events: KvEventsEntry | tuple[KvEventsEntry, ...] = ()


class ModelName(_Strict, frozen=True):
    """The model a request names."""

    value: Annotated[str, msgspec.Meta(min_length=1)]
    type: Literal["Exact"] = "Exact"


class ModelMatch(_Strict, frozen=True):
    """A condition of a rewrite."""

    model: ModelName


class RewriteTarget(_Strict, frozen=True):
    """A model to send a request to, chosen by weight."""

    model_rewrite: Annotated[str, msgspec.Meta(min_length=1)]
    weight: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None


class ModelRewrite(_Strict, frozen=True):
    """One rule: requests for any of the matches, or for any model, get one of the targets."""

    targets: Annotated[tuple[RewriteTarget, ...], msgspec.Meta(min_length=1)]
    matches: tuple[ModelMatch, ...] = ()


class EndpointsFile(_Strict, frozen=True):
    """The whole file.

    Attributes:
        objectives: Priority by name of the objective; below zero is sheddable.
        model_rewrites: Rules in order of precedence.
    """

    endpoints: tuple[EndpointEntry, ...]
    objectives: Mapping[str, Int32] = {}
    model_rewrites: tuple[ModelRewrite, ...] = ()
