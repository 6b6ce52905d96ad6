"""Our side: block hashes and BlockIndex, and the index with its subscriptions. IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import uvloop
import zmq

from bench.peers.side import EVENT_BLOCKS, Side
from indexer.block import Holder, Identity
from indexer.feed import Source
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex
from indexer.prefix_index import PrefixIndex
from indexer.subscriber import Subscriptions

MODEL = "bench"
TIER = "gpu"


class OurIndex:
    """Token ids come packed, as the tokenizer sidecar sends them."""

    def __init__(self, block_size: int, known: int) -> None:
        self._block_size = block_size
        self._root = root(Identity(MODEL))
        self._index = BlockIndex(block_size)
        for number in range(known):
            self._index.bits.bit(_holder(number))

    def hold(self, tokens: Sequence[int], endpoints: range) -> None:
        """Names and hashes are made anew for each event, as a decoder does: nothing is shared."""
        step = EVENT_BLOCKS * self._block_size
        name, parent = 10**18, self._root
        for at in range(0, len(tokens), step):
            packed = pack(tokens[at : at + step])
            for endpoint in endpoints:
                chains = block_hashes(packed, self._block_size, parent)
                names = list(range(name, name + len(chains)))
                self._index.store(_holder(endpoint), TIER, names, chains)
            name, parent = name + len(chains), chains[-1]

    def call(self, tokens: Sequence[int]) -> Callable[[], object]:
        packed, match, block_size, identity = (
            pack(tokens),
            self._index.match,
            self._block_size,
            Identity(MODEL),
        )
        return lambda: match(block_hashes(packed, block_size, root(identity)))

    def reach(self, tokens: Sequence[int]) -> Sequence[int]:
        hashes = block_hashes(pack(tokens), self._block_size, self._root)
        return [match.blocks for match in self._index.match(hashes).values()]


class OurStream:
    """One endpoint's event stream."""

    def __init__(self) -> None:
        self._holder = _holder(0)

    async def listen(self, endpoint: str, block_size: int) -> None:
        self._index = PrefixIndex(block_size)
        # Kept, because its sockets are read only as long as it exists.
        self._subscriptions = Subscriptions(zmq.Context(), self._index)
        self._subscriptions.sync([Source(self._holder, endpoint)])

    async def has(self, tokens: Sequence[int]) -> bool:
        lookup = self._index.match([Identity(MODEL)], pack(tokens), 0.0)
        return self._holder in lookup.matches

    async def blocks(self) -> int:
        return sum(self._index.state(self._holder).blocks.values())


def _holder(number: int) -> Holder:
    return Holder(f"10.0.{number >> 8}.{number & 255}:8000")


if __name__ == "__main__":
    uvloop.run(Side(OurIndex, OurStream).serve())
