"""A naive engine: a dictionary of what it holds where, told in events as a real one tells it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from xxhash import xxh3_64_intdigest

from indexer.block import Identity
from tests.indexer import make

DEPTH = 5
"""Blocks of the longest prompt."""

Path = tuple[int, ...]
"""A prefix: the branch taken at each block."""

IDENTITIES = (
    Identity("tiny"),
    Identity("tiny", salt="s"),
    Identity("tiny", lora="sql"),
)


class Held(NamedTuple):
    """What a block is: whose, and which prefix it ends."""

    identity: Identity
    path: Path


def tokens(path: Path) -> list[int]:
    """The prompt that this prefix is."""
    return [1000 * branch + 100 * at + n for at, branch in enumerate(path) for n in range(16)]


class NaiveEngine:
    """
    Args:
        seed: Of its block names: engines with equal seeds give equal blocks equal names.

    Attributes:
        copies: Tier → block → how often it was stored beyond what was removed.
        sent: The messages of this life.
        truth: What it held after each of them: block → tiers.
    """

    def __init__(self, rng: random.Random, seed: int, rank: int) -> None:
        self.rng = rng
        self.seed = seed
        self.rank = rank
        self.life = 0
        self.restart()

    def restart(self) -> None:
        self.life += 1
        self.copies: dict[str, Counter[Held]] = {"GPU": Counter(), "CPU": Counter()}
        self.sent: list[list[bytes]] = []
        self.truth: list[dict[Held, set[str]]] = []

    def name(self, block: Held) -> int:
        return xxh3_64_intdigest(repr(block).encode(), self.seed)

    def holds(self) -> dict[Held, set[str]]:
        held: dict[Held, set[str]] = {}
        for medium, copies in self.copies.items():
            for block, count in copies.items():
                if count:
                    held.setdefault(block, set()).add(medium.lower())
        return held

    def work(self) -> list[bytes]:
        """Do one to three things and tell them in one message."""
        acts = [self.compute, self.compute, self.offload, self.evict, self.evict]
        events = [event for _ in range(self.rng.randint(1, 3)) for event in self.rng.choice(acts)()]
        if self.rng.random() < 0.03:
            events += self.clear()
        seq = len(self.sent)
        message = make.frames(seq, *events, ts=self.life + seq / 1e6, rank=self.rank)
        self.sent.append(message)
        self.truth.append(self.holds())
        return message

    def compute(self) -> list[dict[str, Any]]:
        """Answer a request: blocks that are missing behind those it has are stored."""
        identity = self.rng.choice(IDENTITIES)
        path = tuple(self.rng.randrange(2) for _ in range(self.rng.randint(1, DEPTH)))
        chain = [Held(identity, path[: end + 1]) for end in range(len(path))]
        gpu = self.copies["GPU"]
        reused = next((at for at, block in enumerate(chain) if not gpu[block]), len(chain))
        new = chain[reused:]
        gpu.update(new)
        cut = self.rng.randint(0, len(new))
        return [self._stored(part, "GPU") for part in (new[:cut], new[cut:]) if part]

    def offload(self) -> list[dict[str, Any]]:
        """Copy a block that is on the GPU to the CPU; its contents are told again, or its name."""
        block = self._any("GPU")
        if block is None:
            return []
        self.copies["CPU"][block] += 1
        if self.rng.random() < 0.5:
            return [make.stored([self.name(block)], [], medium="CPU")]
        return [self._stored([block], "CPU")]

    def evict(self) -> list[dict[str, Any]]:
        """Give up some block, of whichever tier."""
        medium = self.rng.choice(["GPU", "GPU", "CPU"])
        block = self._any(medium)
        if block is None:
            return []
        self.copies[medium][block] -= 1
        return [make.removed([self.name(block)], medium=medium)]

    def clear(self) -> list[dict[str, Any]]:
        self.copies = {"GPU": Counter(), "CPU": Counter()}
        return [make.CLEARED]

    def _any(self, medium: str) -> Held | None:
        held = [block for block, count in self.copies[medium].items() if count]
        return self.rng.choice(held) if held else None

    def _stored(self, blocks: Sequence[Held], medium: str) -> dict[str, Any]:
        identity, path = blocks[0]
        parent = self.name(Held(identity, path[:-1])) if len(path) > 1 else None
        keys = [key for key in (identity.lora, identity.salt) if key is not None]
        return make.stored(
            [self.name(block) for block in blocks],
            tokens(blocks[-1].path)[16 * (len(path) - 1) :],
            parent,
            medium=medium,
            lora_id=1 if identity.lora else None,
            lora_name=identity.lora,
            extra_keys=[keys if keys and len(block.path) == 1 else None for block in blocks],
        )
