"""What a KV event stream says, whatever engine and version wrote it.

Events are many and hold no cycles, so they are kept out of the garbage collector's sight.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from indexer.block import GPU, MediaId


class Reason(enum.StrEnum):
    """Why a message or an event did not count; the closed set of a counter's label."""

    BAD_FRAMES = "bad_frames"
    """Not exactly topic, sequence number, payload."""
    BAD_SEQUENCE = "bad_sequence"
    """The sequence number is not eight bytes."""
    TOO_LARGE = "too_large"
    NOT_MSGPACK = "not_msgpack"
    BAD_BATCH = "bad_batch"
    """msgpack, but no batch of events."""
    BAD_EVENT = "bad_event"
    """A field is missing, has a wrong type or a value that cannot be."""
    UNKNOWN_EVENT = "unknown_event"
    COUNT_MISMATCH = "count_mismatch"
    """Tokens, hashes, block size and extra keys do not fit together."""
    BLOCK_SIZE_MISMATCH = "block_size_mismatch"
    """The engine's block size is not a multiple of the index's."""
    UNSUPPORTED_GROUP = "unsupported_group"
    """A KV cache group whose reuse needs more than a full prefix: the engine is not credited."""
    SEVERAL_GROUPS = "several_groups"
    """More than one KV cache group: a block is reusable only with all; not credited."""
    TOO_MANY_TIERS = "too_many_tiers"
    UNKNOWN_LOCATION = "unknown_location"
    """An event without tokens names a block that the engine did not store before."""
    PARKED_OVERFLOW = "parked_overflow"
    """A store with an unknown parent gave way to later ones."""
    TOO_MANY_MODELS = "too_many_models"
    NO_MODEL = "no_model"
    """The model did not become known before the queue was full."""
    FILTERED = "filtered"
    """The topic is not one that the configured filter lets through."""
    BAD_TOPIC = "bad_topic"
    """On a socket that all engines share: the topic does not say whose events these are."""
    UNKNOWN_ENDPOINT = "unknown_endpoint"
    """On a socket that all engines share: the topic's address is no endpoint's, or several's."""


class BlockStored(msgspec.Struct, frozen=True, gc=False):
    """Blocks entered a tier.

    Attributes:
        names: The engine's hashes as unsigned 64-bit numbers, in order.
        parent: Name of the block before the first; None at the start of a sequence.
        tokens: Packed token ids of all blocks; empty where only a location is told.
        block_size: Tokens per name.
        unnamed_adapter: Number of an adapter that has no name here.
        media: Block number → media on it; None when there are none.
        group: Index of the KV cache group, if told.
        group_kind: What kind of attention the group serves, if told.
    """

    names: Sequence[int]
    parent: int | None
    tokens: bytes
    block_size: int
    tier: str = GPU
    lora: str | None = None
    unnamed_adapter: int | None = None
    salt: str | None = None
    media: Mapping[int, Sequence[MediaId]] | None = None
    group: int | None = None
    group_kind: str | None = None


class BlockRemoved(msgspec.Struct, frozen=True, gc=False):
    """One copy of each block left a tier."""

    names: Sequence[int]
    tier: str = GPU
    group: int | None = None


class AllBlocksCleared(msgspec.Struct, frozen=True, gc=False):
    """Everything is gone: from one tier, or from all when `tier` is None."""

    tier: str | None = None


Event = BlockStored | BlockRemoved | AllBlocksCleared


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One message's events, in the order in which they must be applied.

    Attributes:
        rank: Data-parallel rank, if told.
        ts: When the engine sent it, in seconds since the epoch; None if it did not say.
        rejected: One reason for each event that is left out, or one for the whole message.
    """

    events: Sequence[Event]
    rank: int | None = None
    ts: float | None = None
    rejected: Sequence[Reason] = ()
