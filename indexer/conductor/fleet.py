"""Fleet: holders that did not register, but belong to a conductor's index all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from indexer.block import Holder, Identity


class Known(msgspec.Struct, frozen=True):
    """Those of one model.

    Attributes:
        identities: What their blocks are known under.
        names: Holder → instance and rank.
    """

    identities: Sequence[Identity]
    names: Mapping[Holder, tuple[str, int]]


class Fleet(Protocol):
    """Where they are found."""

    def known(self, tenant: str, model: str) -> Known | None:
        """None where the model or the tenant is not known."""
        ...

    def instances(self) -> Iterator[Mapping[str, Any]]:
        """What `/workers` says of them."""
        ...
