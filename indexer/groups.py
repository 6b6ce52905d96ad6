"""KV cache groups: what a hybrid model's engine must have, beside a prefix's blocks, to reuse it.

Such an engine keeps a block for each group of layers. A prefix of k blocks is reusable only if
every group has what its kind of attention needs: full attention all blocks, a sliding window those
in which the window before k lies, a state-space model (mamba) the state at k, its last block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from indexer.events import BlockStored, Reason
from indexer.walk import Ends

MAX_GROUPS = 32
"""Groups of one engine; hybrid models have two to about a dozen."""

FULL_ATTENTION = "full_attention"
FULL_KINDS = frozenset({FULL_ATTENTION, "mla_attention", "sink_full_attention"})
"""Kinds that need all blocks of a prefix."""

_WINDOW_KINDS = frozenset({"sliding_window", "sliding_window_mla"})

KINDS = FULL_KINDS | _WINDOW_KINDS | {"mamba", "chunked_local_attention", "cross_attention"}
"""Kinds that engines are known to have."""


class Need(msgspec.Struct, frozen=True):
    """What a group needs so that a prefix can be reused.

    Attributes:
        group: Its number.
        unit: Blocks of the index per block of the group: a prefix ends at a multiple.
        window: How many of its last blocks must be there; None: all. The group whose blocks make
            up the prefix needs none beyond them.
    """

    group: int
    unit: int
    window: int | None


class GroupSpec(msgspec.Struct, frozen=True):
    """A group as its engine told of it.

    Attributes:
        kind: What kind of attention it serves; None if not told.
        block_size: Tokens per block.
        window: The sliding window in tokens, if it has one.
    """

    group: int
    kind: str | None
    block_size: int
    window: int | None


Present = Callable[[Need, int], int]
"""Need, number of a block of the group → mask of who has it."""


def cut(ends: Ends, needing: Mapping[Need, int], present: Present) -> Ends:
    """Shorten each holder's prefix until every group of the holder has what it needs.

    `needing` is the mask of holders with that need.
    """
    results: Ends = {}
    work = dict(ends)
    while work:
        blocks = max(work)
        walkers = work.pop(blocks)
        for need, holders in needing.items():
            for at, falling in _falls(need, blocks, walkers & holders, present):
                work[at] = work.get(at, 0) | falling
                walkers ^= falling
        if walkers:
            results[blocks] = walkers
    return results


def _falls(need: Need, blocks: int, walkers: int, present: Present) -> list[tuple[int, int]]:
    """Which of the walkers cannot end at `blocks`, and the next end that may do for them."""
    whole = blocks // need.unit
    if blocks % need.unit:
        return [(whole * need.unit, walkers)] if walkers else []
    falls = []
    first = 0 if need.window is None else max(0, whole - need.window)
    # A gap in a window rules out all ends up to a window behind it, so the last gap tells most;
    # where all blocks are needed, it is the first.
    numbers = range(whole) if need.window is None else range(whole - 1, first - 1, -1)
    for number in numbers:
        if not walkers:
            break
        missing = walkers & ~present(need, number)
        if missing:
            falls.append((number * need.unit, missing))
            walkers ^= missing
    return falls


class Groups:
    """The groups of one engine, as far as its stores told.

    Attributes:
        specs: The groups, in the order in which they were told.
        needs: What they need; empty where the blocks of a prefix are all there is to it.
        sizes: Tokens per block in each, the one included for which the engine is refused.
        refused: Why no prefix of the engine can be judged; None if it can be.
    """

    def __init__(self, block_size: int) -> None:
        self.specs: list[GroupSpec] = []
        self.needs: tuple[Need, ...] = ()
        self.sizes: set[int] = set()
        self.refused: Reason | None = None
        self._block_size = block_size
        self._primary: int | None = None
        self._known: dict[int, Need] = {}

    @property
    def complete(self) -> bool:
        """Groups are numbered from 0, so a hole is a group that was not heard of yet."""
        return not self._known or max(self._known) < len(self._known)

    @property
    def headless(self) -> bool:
        """Whether no group needs all blocks of a prefix."""
        return bool(self._known) and self._primary is None

    @property
    def several(self) -> bool:
        return len(self._known) > 1

    def restore(self, specs: Sequence[GroupSpec]) -> None:
        """Know what another instance knew."""
        for spec in specs:
            self._admit(spec)

    def knows(self, group: int) -> bool:
        return group in self._known

    def further(self, group: int | None) -> int | None:
        """The group's number, None where its blocks are what a prefix is made of."""
        return None if group == self._primary else group

    def further_of(self, group: int | None) -> Sequence[int | None]:
        """As `further`, for a removal: of one group or, if it names none, of all."""
        if not self._known:
            return (None,)
        if group is not None:
            return (self.further(group),)
        return tuple(self.further(known) for known in self._known)

    def kind(self, group: int | None) -> str | None:
        """What kind of attention a group serves, as far as that was told."""
        return next((spec.kind for spec in self.specs if spec.group == group), None)

    def fault_of_removal(self, group: int | None) -> Reason | None:
        """Why nothing is known of what is removed from a group; None if something may be."""
        if self.refused is not None:
            return self.refused
        is_unheard = group is not None and self._known and group not in self._known
        return Reason.MISSING_GROUP if is_unheard else None

    def need(self, group: int | None) -> Need | None:
        return None if group is None else self._known.get(group)

    def learn(self, event: BlockStored) -> bool:
        """Take a store's group in; True if it is a new one."""
        group = event.group
        if group in self._known or self.refused is not None:
            return False
        if group is None:
            if event.group_kind not in (*FULL_KINDS, None):
                self.refused = Reason.UNSUPPORTED_GROUP
            return self.refused is not None
        if not event.block_size:  # tells a location, and neither size nor kind
            return False
        spec = GroupSpec(group, event.group_kind, event.block_size, event.window)
        self.sizes.add(spec.block_size)
        self.refused = self._fault(spec, has_tokens=bool(event.tokens))
        if self.refused is None:
            self._admit(spec)
        return True

    def _fault(self, spec: GroupSpec, *, has_tokens: bool) -> Reason | None:
        """Why the engine cannot be judged with this group."""
        if spec.group >= MAX_GROUPS or len(self._known) >= MAX_GROUPS:
            return Reason.SEVERAL_GROUPS
        if spec.kind is None:
            return Reason.SEVERAL_GROUPS if self._known or not has_tokens else None
        if spec.kind not in FULL_KINDS and spec.kind != "mamba" and not _window(spec):
            return Reason.UNSUPPORTED_GROUP
        hybrid = self._known or spec.kind not in FULL_KINDS
        if hybrid and any(size % self._block_size for size in self.sizes):
            return Reason.BLOCK_SIZE_MISMATCH
        return None

    def _admit(self, spec: GroupSpec) -> None:
        unit = spec.block_size // self._block_size
        if self._primary is None and spec.kind in (*FULL_KINDS, None):
            self._primary = spec.group
            need = Need(spec.group, unit, 0)
        elif spec.kind in FULL_KINDS:
            need = Need(spec.group, unit, None)
        elif spec.kind == "mamba":
            need = Need(spec.group, unit, 1)
        else:
            need = Need(spec.group, unit, -(-(_window(spec) - 1) // spec.block_size))
        self._known[spec.group] = need
        self.specs.append(spec)
        if self.several or self.headless:
            self.needs = tuple(n for n in self._known.values() if n.window != 0 or n.unit != 1)


def _window(spec: GroupSpec) -> int:
    """Tokens of a sliding window; 0 where the group has none that is known."""
    return (spec.window or 0) if spec.kind in _WINDOW_KINDS else 0
