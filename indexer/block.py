"""The words of the index: whose cache, which content, and what a match says."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

MediaId = str | bytes
"""A media item's content id as text, or the digest of prompt embeddings as bytes."""

MediaIds = Mapping[int, Sequence[MediaId]]
"""Block number → what lies on it beside tokens, in order of position."""

GPU = "gpu"
CPU = "cpu"
SHARED_STORAGE = "shared_storage"
"""Storage from which every endpoint of a model can read."""


class Identity(msgspec.Struct, frozen=True, cache_hash=True):
    """What must be equal, beside the tokens, for a block to be reusable.

    Attributes:
        model: The name the engine's events carry, or the endpoint's served base model.
        lora: Served name of the adapter; None for the base model.
        salt: The request's `cache_salt`; None without one.
    """

    model: str
    lora: str | None = None
    salt: str | None = None


class Holder(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """One KV cache: an endpoint (`ip:port`), or one data-parallel rank behind it."""

    address: str
    rank: int = 0


class Match(msgspec.Struct, frozen=True):
    """How much of a prompt's beginning one holder has.

    Attributes:
        blocks: Confirmed leading blocks without a gap.
        tiers: Tier → how many of them have it as their best tier; sums to `blocks`.
        speculative: Leading blocks without a gap when guesses count too; at least `blocks`.
    """

    blocks: int
    tiers: Mapping[str, int]
    speculative: int


class Trust(enum.StrEnum):
    """How far the index and the engine are known to agree.

    `PARTIAL`: the engine may hold more, or have dropped some, because events were missed; what
    arrived is credited. `STALE`: the connection is lost; nothing is credited.
    """

    EXACT = "exact"
    PARTIAL = "partial"
    STALE = "stale"
