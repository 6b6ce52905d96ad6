"""Shared storage: what an endpoint of which nothing was heard can load from there.

Endpoints whose events are read are credited by the index itself, block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from indexer.block import SHARED_STORAGE, Holder, Identity, Match
from indexer.feed import Feed
from indexer.prefix_index import Lookup
from router.pool.endpoint import Endpoint

_NOTHING = Match(0, {}, 0)


def credited(
    lookup: Lookup, endpoints: Sequence[Endpoint], feeds: Iterable[Feed]
) -> Mapping[Holder, Match]:
    """The matches of a lookup, with those of silent endpoints."""
    if not lookup.shared_blocks:
        return lookup.matches
    heard = {holder.address for feed in feeds if feed.models for holder in feed.holders}
    matches = dict(lookup.matches)
    for endpoint in endpoints:
        blocks = 0 if endpoint.address in heard else _shared_blocks(lookup, endpoint)
        if blocks:
            holder = Holder(endpoint.address, endpoint.rank)
            guessed = matches.get(holder, _NOTHING).speculative
            matches[holder] = Match(blocks, {SHARED_STORAGE: blocks}, max(blocks, guessed))
    return matches


def _shared_blocks(lookup: Lookup, endpoint: Endpoint) -> int:
    readable = (r.shared_blocks for r in lookup.readings if _may_serve(endpoint, r.identity))
    return max(readable, default=0)


def _may_serve(endpoint: Endpoint, identity: Identity) -> bool:
    """An endpoint that has not said what it serves may serve anything: requests go to it, too."""
    models = endpoint.models
    if models is None:
        return True
    if identity.lora is not None and identity.lora not in models.adapters:
        return False
    return identity.model in models.names or identity.model == models.root
