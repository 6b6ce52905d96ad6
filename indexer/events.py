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
    """The engine's block size and the index's do not divide each other."""
    UNSUPPORTED_GROUP = "unsupported_group"
    """A KV cache group of a kind, or a window, that is not known: the engine is not credited."""
    SEVERAL_GROUPS = "several_groups"
    """KV cache groups that are not told apart: a block is reusable only with all; not credited."""
    MISSING_GROUP = "missing_group"
    """A KV cache group that was not heard of yet: the engine is not credited until then."""
    TOO_MANY_TIERS = "too_many_tiers"
    """More tiers, or sizes and groups in them, than an index keeps apart."""
    BIGRAM_TOKENS = "bigram_tokens"
    """Pairs of token ids in place of token ids: blocks of speculative decoding with EAGLE."""
    PARTIAL_BLOCK = "partial_block"
    """A block with fewer tokens than its engine's blocks have, or than are known to fill one."""
    OVER_BUDGET = "over_budget"
    """Blocks for which the index has no room: the tail of what their holder has."""
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
        tokens: Packed token ids of all blocks; empty where only a location is told, or where the
            group keeps only some of the blocks, so that ids and names do not pair.
        block_size: Tokens per name; 0 if not told.
        unnamed_adapter: Number of an adapter that has no name here.
        media: Block number → media on it; None when there are none.
        group: Index of the KV cache group, if told.
        group_kind: What kind of attention the group serves, if told.
        window: The group's sliding window in tokens, if it has one.
        remote: The blocks lie in storage that all endpoints of the model share.
        contents: Content hashes of the blocks, which are of the index's size, in place of tokens.
        settled: Told by whoever keeps the tier, where engines tell only what they gave it.
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
    window: int | None = None
    remote: bool = False
    contents: Sequence[int] = ()
    settled: bool = False

    @property
    def has_content(self) -> bool:
        """It says what is in the blocks, not only where they are."""
        return bool(self.tokens or self.contents)

    def goes_on(self, before: BlockStored) -> bool:
        """Whether it and the store before it say what a single one would: see `joined`.

        An adapter and a salt are told with the first block, and hold for those behind it.
        """
        return (
            bool(before.names)
            and self.parent == before.names[-1]
            and self.block_size == before.block_size
            and self.group == before.group
            and self.tier == before.tier
            and bool(self.tokens and before.tokens)
            and not (self.media or before.media or self.contents or before.contents)
            and not (self.remote or before.remote or self.settled or before.settled)
        )


def joined(run: Sequence[BlockStored]) -> BlockStored:
    """One store in place of several, of which each goes on where the one before it ends."""
    return msgspec.structs.replace(
        run[0],
        names=[name for store in run for name in store.names],
        tokens=b"".join([store.tokens for store in run]),
    )


class BlockRemoved(msgspec.Struct, frozen=True, gc=False):
    """One copy of each block left a tier."""

    names: Sequence[int]
    tier: str = GPU
    group: int | None = None
    remote: bool = False
    settled: bool = False


class AllBlocksCleared(msgspec.Struct, frozen=True, gc=False):
    """Everything is gone: from one tier, or from all when `tier` is None."""

    tier: str | None = None


class Change(enum.Enum):
    """What became of blocks in a pool."""

    STORED = enum.auto()
    REMOVED = enum.auto()
    CLEARED = enum.auto()


class PoolTold(msgspec.Struct, frozen=True, gc=False):
    """What a pool says of blocks that it knows by name alone.

    Attributes:
        names: The names engines gave them, as unsigned 64-bit numbers; none where all are cleared.
        tier: Where they are, if told.
        node: Host whose memory it is, if told.
        rank: Data-parallel rank there, if told.
        tenant: Whose blocks they are, if told.
    """

    change: Change
    names: Sequence[int]
    tier: str | None = None
    node: str | None = None
    rank: int | None = None
    tenant: str | None = None


Event = BlockStored | BlockRemoved | AllBlocksCleared | PoolTold


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
