"""Guesses: blocks that a holder is about to have because a request was sent to it.

A guess belongs to the tickets that made it and lives until the last of them ends. The engine's word
ends it sooner: a store confirms it, a removal or a clear overrules it. Since a guess knows its
tickets by number, a ticket that outlived its guess can never end somebody else's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import msgspec

from indexer.block import Holder
from indexer.holders import HolderBits


class Ticket(msgspec.Struct, frozen=True):
    """A receipt for recorded guesses."""

    number: int
    holder: Holder


class GuessStats(msgspec.Struct):
    """How guesses ended, in blocks per ticket; what is missing from `recorded` is outstanding.

    Attributes:
        recorded: Guesses made.
        confirmed: The engine stored the block.
        expired: Their ticket's time ran out.
        withdrawn: Their ticket was taken back.
        overruled: The engine removed the block, cleared, restarted or went away.
        confirmed_age_s: How old the confirmed ones were, added up, to the pace of `expire`.
    """

    recorded: int = 0
    confirmed: int = 0
    expired: int = 0
    withdrawn: int = 0
    overruled: int = 0
    confirmed_age_s: float = 0.0


class _Open(msgspec.Struct):
    ticket: Ticket
    hashes: Sequence[int]
    expires_at: float
    recorded_at: float


class Speculative:
    """
    Attributes:
        masks: Chain hash → mask of the holders it is guessed for; for `BlockIndex.match`.
        stats: How all guesses ended.
        by_holder: How those of each holder ended since it was last forgotten.
    """

    def __init__(self, bits: HolderBits) -> None:
        self.masks: dict[int, int] = {}
        self.stats = GuessStats()
        self.by_holder: dict[Holder, GuessStats] = {}
        self._bits = bits
        self._guesses: dict[Holder, dict[int, int | set[int]]] = {}
        """Holder → block → number of its ticket, or numbers where there are several."""
        self._open: dict[int, _Open] = {}
        self._expiries: list[tuple[float, int]] = []
        self._last_number = 0
        self._now = 0.0

    def record(self, holder: Holder, hashes: Sequence[int], expires_at: float) -> Ticket:
        """Guess that the holder will have these blocks until then."""
        self._last_number = number = self._last_number + 1
        ticket = Ticket(number, holder)
        # Mostly nobody guesses any of them yet: whole mappings are made and joined, not entries.
        hashes = list(dict.fromkeys(hashes))
        self._open[number] = _Open(ticket, hashes, expires_at, self._now)
        heapq.heappush(self._expiries, (expires_at, number))
        guesses = self._guesses.setdefault(holder, {})
        self._own(guesses, hashes, number)
        self._mark(hashes, self._bits.bit(holder))
        self._of(holder).recorded += len(hashes)
        self.stats.recorded += len(hashes)
        return ticket

    def extend(self, ticket: Ticket, expires_at: float) -> None:
        """Let the ticket live until then, unless it lives longer or has ended."""
        record = self._open.get(ticket.number)
        if record is not None:
            record.expires_at = max(record.expires_at, expires_at)

    def withdraw(self, ticket: Ticket) -> None:
        """End the ticket's guesses now; nothing happens if it has ended."""
        withdrawn = self._end(ticket.number)
        if withdrawn:
            self._of(ticket.holder).withdrawn += withdrawn
            self.stats.withdrawn += withdrawn

    def expire(self, now: float) -> None:
        """End the tickets whose time is up; it is this late now."""
        self._now = now
        while self._expiries and self._expiries[0][0] <= now:
            _, number = heapq.heappop(self._expiries)
            record = self._open.get(number)
            if record is None:
                continue
            if record.expires_at > now:
                heapq.heappush(self._expiries, (record.expires_at, number))
            else:
                if expired := self._end(number):
                    self._of(record.ticket.holder).expired += expired
                    self.stats.expired += expired

    def confirm(self, holder: Holder, hashes: Iterable[int]) -> None:
        """The engine stored these blocks: they are no guesses any more."""
        if holder in self._guesses:
            hashes = list(hashes)
            age_s, own = self._age_s(holder, hashes), self._of(holder)
            confirmed = self._drop(holder, hashes)
            for stats in (own, self.stats):
                stats.confirmed_age_s += age_s
                stats.confirmed += confirmed

    def overrule(self, holder: Holder, hashes: Iterable[int]) -> None:
        """The engine removed these blocks."""
        if holder in self._guesses:
            overruled = self._drop(holder, hashes)
            self._of(holder).overruled += overruled
            self.stats.overruled += overruled

    def forget(self, holder: Holder) -> None:
        """The holder is about to be cleared: end its guesses while its bit is still theirs."""
        guesses = self._guesses.get(holder)
        if guesses is not None:
            self.stats.overruled += self._drop(holder, list(guesses))
        ended = [number for number, record in self._open.items() if record.ticket.holder == holder]
        for number in ended:
            del self._open[number]
        self.by_holder.pop(holder, None)

    def outstanding(self) -> int:
        """Guesses that count at the moment, in blocks."""
        return sum(map(len, self._guesses.values()))

    def _own(self, guesses: dict[int, int | set[int]], hashes: Sequence[int], number: int) -> None:
        """Note that they are guesses of this ticket, too."""
        owners: dict[int, int | set[int]] = dict.fromkeys(hashes, number)
        for block in guesses.keys() & hashes:
            owner = guesses[block]
            owners[block] = {*owner, number} if isinstance(owner, set) else {owner, number}
        guesses.update(owners)

    def _mark(self, hashes: Sequence[int], bit: int) -> None:
        """Note that they are guessed for this holder, too."""
        masks = dict.fromkeys(hashes, bit)
        for block in self.masks.keys() & hashes:
            masks[block] |= self.masks[block]
        self.masks.update(masks)

    def _of(self, holder: Holder) -> GuessStats:
        stats = self.by_holder.get(holder)
        if stats is None:
            stats = self.by_holder[holder] = GuessStats()
        return stats

    def _age_s(self, holder: Holder, hashes: Iterable[int]) -> float:
        """How old the guesses of these blocks are, added up."""
        guesses, age_s = self._guesses[holder], 0.0
        for block in hashes:
            owner = guesses.get(block)
            if owner is not None:
                for number in owner if isinstance(owner, set) else (owner,):
                    age_s += self._now - self._open[number].recorded_at
        return age_s

    def _end(self, number: int) -> int:
        """End one ticket; returns how many guesses it still had."""
        record = self._open.pop(number, None)
        if record is None:
            return 0
        holder = record.ticket.holder
        guesses = self._guesses.get(holder, {})
        owners = list(map(guesses.get, record.hashes))
        lone = [b for b, owner in zip(record.hashes, owners, strict=True) if owner == number]
        shared = 0
        if len(lone) < len(owners):
            for block, owner in zip(record.hashes, owners, strict=True):
                if isinstance(owner, set) and number in owner:
                    owner.remove(number)
                    shared += 1
                    if len(owner) == 1:
                        guesses[block] = owner.pop()
        return shared + self._drop(holder, lone)

    def _drop(self, holder: Holder, hashes: Iterable[int]) -> int:
        """Take guesses away from all their tickets; returns how many there were, per ticket."""
        guesses = self._guesses.get(holder, {})
        others, masks = ~self._bits.find(holder), self.masks
        dropped = 0
        for block in hashes:
            owner = guesses.pop(block, None)
            if owner is None:
                continue
            dropped += len(owner) if isinstance(owner, set) else 1
            rest = masks.pop(block) & others
            if rest:
                masks[block] = rest
        if not guesses:
            self._guesses.pop(holder, None)
        return dropped
