"""The prefix cache of a vLLM V1 engine with one full-attention group: physical blocks and events.

Every block is either held by requests or in the free queue, and a free block keeps its content
until it is handed out again. The queue's head is used first:

    head [ freed without a hash ... | ... least recently freed ... most recently freed ] tail

One content may lie in several blocks; it can be reused until the last of them is handed out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from simulator.hashing import Identity
from simulator.wire import AllBlocksCleared, BlockRemoved, BlockStored, Event


class Block:
    """One physical block: what it holds (None: nothing reusable) and how many requests hold it."""

    __slots__ = ("digest", "holders", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.digest: bytes | None = None
        self.holders = 0


class PrefixCache:
    """A fixed number of blocks, and the events that their use gives rise to.

    Block 0 is never handed out, as in vLLM, where it stands for "no block".
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        if num_blocks < 2:
            raise ValueError(f"num_blocks must be at least 2, got {num_blocks}")
        self.block_size = block_size
        self.usable_blocks = num_blocks - 1
        self._free = OrderedDict((number, Block(number)) for number in range(1, num_blocks))
        self._copies: dict[bytes, dict[int, Block]] = {}
        self._events: list[Event] = []

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """The share of blocks that requests hold, 0 to 1; cached but free blocks do not count."""
        return 1.0 - len(self._free) / self.usable_blocks

    def lookup(self, digests: Sequence[bytes], token_count: int) -> list[Block]:
        """The blocks a sequence of `token_count` tokens can start with.

        At least one token is left to compute, so the last block of an exact fit does not count.
        """
        found = []
        for digest in digests[: (token_count - 1) // self.block_size]:
            copies = self._copies.get(digest)
            if copies is None:
                break
            found.append(next(iter(copies.values())))
        return found

    def can_take(self, reused: Sequence[Block], count: int) -> bool:
        """Whether `count` more blocks are free once the `reused` ones are held."""
        return len(self._free) >= count + sum(block.holders == 0 for block in reused)

    def take(self, reused: Sequence[Block], count: int) -> list[Block]:
        """Hold the `reused` blocks and `count` new ones, evicting what those contained.

        Raises ValueError when there are not enough; then nothing has changed.
        """
        if not self.can_take(reused, count):
            raise ValueError(f"{count} blocks asked for, {len(self._free)} free")
        for block in reused:
            if block.holders == 0:
                del self._free[block.number]
            block.holders += 1
        return [self._hand_out() for _ in range(count)]

    def store(
        self,
        blocks: Sequence[Block],
        digests: Sequence[bytes],
        token_ids: Sequence[int],
        start: int,
        identity: Identity,
        session_id: str | None = None,
    ) -> None:
        """Make a sequence's blocks from index `start` on reusable, and announce them.

        `blocks` and `digests` are the whole sequence's; as many as there are digests are full.
        """
        for block, digest in zip(blocks[start:], digests[start:], strict=False):
            block.digest = digest
            self._copies.setdefault(digest, {})[block.number] = block
        self.announce(digests, token_ids, start, identity, session_id)

    def announce(
        self,
        digests: Sequence[bytes],
        token_ids: Sequence[int],
        start: int,
        identity: Identity,
        session_id: str | None = None,
    ) -> None:
        """Say that a sequence's blocks from index `start` on are stored, whether new or not."""
        if start == len(digests):
            return
        adapter, size = identity.adapter, self.block_size
        self._events.append(
            BlockStored(
                digests=tuple(digests[start:]),
                parent=digests[start - 1] if start else None,
                token_ids=tuple(token_ids[start * size : len(digests) * size]),
                block_size=size,
                extra_keys=tuple(identity.announced(i) for i in range(start, len(digests))),
                lora_id=adapter.number if adapter else None,
                lora_name=adapter.name if adapter else None,
                session_id=session_id,
            )
        )

    def release(self, blocks: Sequence[Block]) -> None:
        """Let go of a sequence's blocks. Its tail is evicted before its head."""
        for block in reversed(blocks):
            block.holders -= 1
            if block.holders == 0:
                self._free[block.number] = block
        for block in blocks:
            if block.holders == 0 and block.digest is None:
                self._free.move_to_end(block.number, last=False)

    def reset(self) -> bool:
        """Forget all content; refused while a request holds a block."""
        if len(self._free) != self.usable_blocks:
            return False
        for block in self._free.values():
            block.digest = None
        self._copies.clear()
        self._events.append(AllBlocksCleared())
        return True

    def drain_events(self) -> tuple[Event, ...]:
        """What happened since the last call, in order."""
        events, self._events = tuple(self._events), []
        return events

    def _hand_out(self) -> Block:
        _, block = self._free.popitem(last=False)
        if block.digest is not None:
            copies = self._copies[block.digest]
            del copies[block.number]
            if not copies:
                del self._copies[block.digest]
            self._events.append(BlockRemoved(block.digest))
            block.digest = None
        block.holders = 1
        return block
