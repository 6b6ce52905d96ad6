"""What clients of a conductor send, as typed structs, in JSON or MessagePack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec

DEFAULT_TENANT = "default"
DEFAULT_BLOCK_SIZE = 128
DEFAULT_BACKEND = "Mooncake"

MSGPACK_TYPES = frozenset({"application/msgpack", "application/x-msgpack"})
"""Media types of bodies that are MessagePack; all others are JSON."""

MAX_BLOCK_SIZE = 65536

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Tenant = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_BlockSize = Annotated[int, msgspec.Meta(ge=1, le=MAX_BLOCK_SIZE)]
_Rank = Annotated[int, msgspec.Meta(ge=0, le=65535)]

_T = TypeVar("_T")


class Malformed(ValueError):
    """A body that says nothing that can be done; the message says why."""


class Register(msgspec.Struct, frozen=True):
    """An engine's rank, or a pool, and where its events are published.

    Attributes:
        medium_endpoints: Medium → ZMQ address of its events.
        endpoint: Address of a pool's events, where there are no `medium_endpoints`.
        type: Kind of engine; told on, and of no effect.
        store_backend: The pool that the engine gives its blocks to.
    """

    instance_id: _Name
    modelname: _Name
    block_size: _BlockSize
    medium_endpoints: dict[str, str] = {}
    endpoint: str | None = None
    type: str = "vLLM"
    dp_rank: _Rank = 0
    store_backend: str = DEFAULT_BACKEND
    replay_endpoint: str | None = None
    tenant_id: _Tenant = DEFAULT_TENANT


class Unregister(msgspec.Struct, frozen=True):
    """Takes a registration back."""

    instance_id: _Name
    dp_rank: _Rank = 0
    tenant_id: _Tenant = DEFAULT_TENANT


class Query(msgspec.Struct, frozen=True):
    """Asks who holds a prompt."""

    model: _Name
    token_ids: list[int]
    block_size: _BlockSize = DEFAULT_BLOCK_SIZE
    tenant_id: _Tenant = DEFAULT_TENANT


class QueryByHash(msgspec.Struct, frozen=True):
    """The same with content hashes of the prompt's blocks, spelled in any way."""

    model: _Name
    block_hashes: list[Any]
    block_size: _BlockSize = DEFAULT_BLOCK_SIZE
    tenant_id: _Tenant = DEFAULT_TENANT


class Events(msgspec.Struct, frozen=True):
    """Events of one instance.

    Attributes:
        model_name: None: that of the registration.
        tenant_id: Likewise.
        block_size: Likewise.
        shutdown: The instance ends: it has nothing any more.
    """

    instance_id: _Name
    events: list[dict[str, Any]] = []
    model_name: _Name | None = None
    tenant_id: _Tenant | None = None
    block_size: _BlockSize | None = None
    shutdown: bool = False


class Covered(msgspec.Struct, frozen=True):
    """Leading blocks that a rank holds, each counted in its best medium only."""

    matched_tokens: int
    npu_blocks: int
    cpu_blocks: int
    disk_blocks: int


class Instance(msgspec.Struct, rename={"ranks": "DP"}):
    """The ranks of an instance that hold anything, and the most that one of them does."""

    longest_matched: int
    ranks: dict[str, Covered]


Answer = Mapping[str, Mapping[str, Instance]]
"""Tenant → instance → what it holds."""


class Codec:
    """Reads bodies of one media type and writes answers in the same."""

    def __init__(self, content_type: str) -> None:
        """`content_type` is the request's header; without one it is JSON."""
        kind = content_type.partition(";")[0].strip().lower()
        self.is_msgpack = kind in MSGPACK_TYPES
        self.content_type = kind if self.is_msgpack else "application/json"

    def decode(self, body: bytes, kind: type[_T]) -> _T:
        """Raises Malformed."""
        read = msgspec.msgpack.decode if self.is_msgpack else msgspec.json.decode
        try:
            return read(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(str(error)) from error

    def encode(self, answer: object) -> bytes:
        return (msgspec.msgpack.encode if self.is_msgpack else msgspec.json.encode)(answer)
