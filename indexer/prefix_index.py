"""PrefixIndex: the index as the router uses it. Event streams go in, matches come out.

It owns the confirmed blocks, the guesses and the streams. All times named `now` or `expires_at` are
seconds of one monotonic clock that the caller chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from indexer.block import CPU, GPU, Holder, Identity, Match, MediaIds, Trust
from indexer.budget import Budget
from indexer.engines import pool, vllm
from indexer.events import Batch, Reason
from indexer.feed import Feed, Source
from indexer.hashing import block_hashes, root
from indexer.holders import HolderBits
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.outline import Outline
from indexer.pooling import PooledLedger, Pooling, PoolLedger
from indexer.remembered import RememberedHashes
from indexer.speculative import GuessStats, Speculative, Ticket
from indexer.storage import StorageLedger, is_shared, shared_by

SWEEP_BLOCKS = 2000
"""Entries per turn of upkeep: well under a millisecond."""

_NO_GUESSES = GuessStats()


class Reading(msgspec.Struct, frozen=True):
    """One identity's walk: the prompt's block hashes under it, and who has them."""

    identity: Identity
    hashes: Sequence[int]
    matches: Mapping[Holder, Match]
    shared_blocks: int = 0


class Lookup(msgspec.Struct, frozen=True):
    """What the index knows about a prompt.

    Attributes:
        total_blocks: Full blocks in the prompt.
        matches: Each holder's best match; without those that have no leading block.
        readings: The same per identity.
        shared_blocks: Leading blocks that endpoints of the model of which nothing was heard so far
            have too, because they lie in shared storage.
    """

    total_blocks: int
    matches: Mapping[Holder, Match]
    readings: Sequence[Reading]
    shared_blocks: int = 0


class HolderState(msgspec.Struct, frozen=True):
    """What is known about one holder.

    Attributes:
        blocks: Tier → blocks held.
        refused: Why it is credited nothing although its events are understood; None if it is.
        block_size: Tokens per block as its engine last said.
        parked_blocks: Blocks that wait for a parent.
        models: Models its events were taken for.
        rejected: Its events that did not count, by reason.
        dropped_blocks: Blocks that the budget had no room for since its last clear: it is credited
            with the prefixes that remain.
        bytes: About what its endpoint takes of the index, as if it were alone.
        guess_stats: How guesses of what it will have ended since it was last cleared.
    """

    holder: Holder
    trust: Trust
    blocks: Mapping[str, int]
    refused: Reason | None
    block_size: int | None
    parked_blocks: int
    models: frozenset[str]
    rejected: Mapping[Reason, int]
    dropped_blocks: int = 0
    bytes: int = 0
    guess_stats: GuessStats = msgspec.field(default_factory=GuessStats)


class IndexStats(msgspec.Struct, frozen=True):
    """Totals for gauges and counters.

    Attributes:
        sizes: Entries per internal table.
        guesses: Guesses that count at the moment, in blocks.
        guess_stats: How guesses ended so far.
        rejected: Messages and events that did not count, by reason, ended streams included.
        bytes: About what the confirmed blocks take.
    """

    holders: int
    sizes: Mapping[str, int]
    guesses: int
    guess_stats: GuessStats
    rejected: Mapping[Reason, int]
    bytes: int = 0


class PrefixIndex:
    """
    Args:
        block_size: Tokens per block; must divide the engines' block sizes.
        count_repeats: See `BlockIndex`.
        tiers: Names of tiers, best first.
        index_bytes: What confirmed blocks may take altogether; None: no bound.
        index_bytes_per_endpoint: What those of one endpoint may take.
        pools: Engines may give their blocks to pools whose events are read, too.

    Attributes:
        pooling: What pools keep; None where there are none.
    """

    def __init__(
        self,
        block_size: int,
        count_repeats: bool = True,
        tiers: Sequence[str] = (GPU, CPU),
        *,
        index_bytes: int | None = None,
        index_bytes_per_endpoint: int | None = None,
        pools: bool = False,
    ) -> None:
        bits = HolderBits()
        budget = Budget(index_bytes, index_bytes_per_endpoint)
        self._index = BlockIndex(block_size, count_repeats, tiers, bits, budget)
        self._guesses = Speculative(bits)
        self._remembered = RememberedHashes(block_size)
        self.pooling = Pooling(self._index) if pools else None
        self._ledgers: dict[Holder, Ledger] = {}
        self._feeds: list[Feed] = []
        self._ended: Counter[Reason] = Counter()

    @property
    def block_size(self) -> int:
        return self._index.block_size

    @property
    def blocks(self) -> BlockIndex:
        """The confirmed blocks."""
        return self._index

    @property
    def ledgers(self) -> Mapping[Holder, Ledger]:
        """What is known of each engine of which something was heard, to be read only."""
        return self._ledgers

    def outline(self, holder: Holder) -> Outline | None:
        """What is known of a holder's engine beside its blocks; see `Ledger.outline`."""
        ledger = self._ledgers.get(holder)
        return ledger.outline() if ledger is not None and not is_shared(holder) else None

    # -- streams --------------------------------------------------------------------------------

    def open(self, source: Source) -> Feed:
        """A new stream; whoever reads the socket gives it the frames."""
        feed = Feed(source, self.ledger, self._decoder(source))
        self._feeds.append(feed)
        return feed

    def close(self, feed: Feed) -> None:
        """End a stream and drop its holders; nothing that it still receives counts."""
        feed.close()
        self._feeds.remove(feed)
        self._ended.update(feed.rejected)
        for holder in feed.holders:
            self.drop(holder)
        for model in feed.models - self.models_seen():
            self.drop(shared_by(model))  # nobody is left to tell what is removed from there

    def drop_endpoint(self, address: str) -> None:
        """Forget an endpoint, all its ranks. Its open streams go on, as if joined late."""
        for feed in self._feeds:
            if feed.source.holder.address == address:
                feed.restarted()
        for holder in self._known(address):
            self.drop(holder)

    def reject(self, reason: Reason) -> None:
        """Count a message that belongs to no stream."""
        self._ended[reason] += 1

    def restarted(self, address: str, process_start: float | None = None) -> None:
        """An endpoint is known to be another process than before: forget what it had.

        What its streams heard of a process that started at `process_start` is kept.
        """
        feeds = [feed for feed in self._feeds if feed.source.holder.address == address]
        if process_start is not None and feeds:
            feeds = [feed for feed in feeds if not feed.began_after(process_start)]
            if not feeds:
                return
        self.drop_endpoint(address)

    def same_process(self, address: str) -> None:
        """An endpoint whose connection was lost is known to be the same process as before."""
        for feed in self._feeds:
            if feed.source.holder.address == address:
                feed.proven()

    def ledger(self, holder: Holder) -> Ledger:
        """Where what is told of a holder is taken in; made at first use."""
        ledger = self._ledgers.get(holder)
        if ledger is None:
            ledger = self._ledgers[holder] = self._new_ledger(holder)
        return ledger

    # -- requests -------------------------------------------------------------------------------

    def match(
        self,
        identities: Sequence[Identity],
        tokens: bytes,
        now: float,
        media: MediaIds | None = None,
    ) -> Lookup:
        """Who has how much of a prompt, given as packed token ids.

        `identities` are the spellings under which engines may announce the request's blocks, the
        likeliest first; at least one. Those whose model no stream has are skipped, the first apart.
        """
        self._guesses.expire(now)
        seen = self.models_seen() if len(identities) > 1 else frozenset()
        readings = [
            self._read(identity, tokens, media)
            for number, identity in enumerate(identities)
            if number == 0 or identity.model in seen
        ]
        matches = dict(readings[0].matches)
        for reading in readings[1:]:
            for holder, match in reading.matches.items():
                best = matches.get(holder, match)
                matches[holder] = max(best, match, key=lambda m: (m.blocks, m.speculative))
        shared_blocks = max(reading.shared_blocks for reading in readings)
        return Lookup(len(readings[0].hashes), matches, readings, shared_blocks)

    def guess(self, lookup: Lookup, holder: Holder, expires_at: float) -> Ticket:
        """Expect the holder to have the whole prompt soon, because the request goes there."""
        reading = lookup.readings[0]
        if len(lookup.readings) > 1:
            models = self._models(holder)
            reading = next((r for r in lookup.readings if r.identity.model in models), reading)
        match = reading.matches.get(holder)
        confirmed = match.blocks if match else 0
        grain = self._index.traits.grain(holder)
        whole = len(reading.hashes) // grain * grain
        return self._guesses.record(holder, reading.hashes[confirmed:whole], expires_at)

    def extend(self, ticket: Ticket, expires_at: float) -> None:
        """Let a guess live longer: its request still waits for the engine."""
        self._guesses.extend(ticket, expires_at)

    def withdraw(self, ticket: Ticket) -> None:
        """Take a guess back: its request failed or went elsewhere."""
        self._guesses.withdraw(ticket)

    # -- upkeep and figures ---------------------------------------------------------------------

    def tick(self, now: float, max_blocks: int = SWEEP_BLOCKS) -> bool:
        """Expire guesses and clear up a bounded part; True while there is more to clear up."""
        self._guesses.expire(now)
        return self._index.sweep(max_blocks)

    def models_seen(self) -> frozenset[str]:
        """Models that events of open streams were taken for."""
        return frozenset().union(*(feed.models for feed in self._feeds))

    def trust(self, holder: Holder) -> Trust:
        """The least trust among the holder's streams; partial if it has none.

        A stream over which nothing came counts only where there is no other: an engine either
        listens or connects, and it may be expected both ways. Nobody is exact who can read from
        storage that was told of by streams that are not.
        """
        own = self._own_trust(holder)
        if own is Trust.EXACT and any(map(self._is_doubted, self._models(holder))):
            return Trust.PARTIAL
        return own

    def _is_doubted(self, model: str) -> bool:
        """Whether what is in a model's shared storage may be gone."""
        storage = shared_by(model)
        ledger = self._ledgers.get(storage)
        if ledger is None or not self._index.blocks(storage):
            return False
        told_by = [h for h, other in self._ledgers.items() if ledger in other.shared]
        if any(storage in feed.holders for feed in self._feeds):
            told_by.append(storage)
        return ledger.doubted or any(self._own_trust(h) is not Trust.EXACT for h in told_by)

    def _own_trust(self, holder: Holder) -> Trust:
        feeds = [feed for feed in self._feeds if holder in feed.holders]
        heard = [feed for feed in feeds if feed.order.next is not None]
        found = {feed.trust for feed in heard or feeds}
        for trust in (Trust.STALE, Trust.PARTIAL, Trust.EXACT):
            if trust in found:
                return trust
        return Trust.PARTIAL

    def state(self, holder: Holder) -> HolderState:
        ledger = self._ledgers.get(holder) or Ledger(holder, self._index, self._guesses)
        return HolderState(
            holder=holder,
            trust=self.trust(holder),
            blocks=self._index.blocks(holder),
            refused=ledger.refused,
            block_size=ledger.block_size,
            parked_blocks=ledger.parked_blocks,
            models=frozenset(self._models(holder)),
            rejected=dict(ledger.rejected),
            dropped_blocks=ledger.dropped_blocks,
            bytes=self._index.bytes(holder.address),
            guess_stats=msgspec.structs.replace(self.guess_stats(holder)),
        )

    def guess_stats(self, holder: Holder) -> GuessStats:
        """How guesses of what a holder will have ended since it was last cleared, to be read."""
        return self._guesses.by_holder.get(holder, _NO_GUESSES)

    def holders(self) -> tuple[Holder, ...]:
        """All holders of whom something was heard or guessed, in order."""
        return tuple(sorted({*self._ledgers, *self._index.bits.holders()}))

    def feeds(self) -> Sequence[Feed]:
        """The open streams, to be read only."""
        return tuple(self._feeds)

    def stats(self) -> IndexStats:
        rejected = Counter(self._ended)
        for feed in self._feeds:
            rejected.update(feed.rejected)
        for ledger in self._ledgers.values():
            rejected.update(ledger.rejected)
        return IndexStats(
            holders=len(self._index.bits),
            sizes=self._index.sizes(),
            guesses=self._guesses.outstanding(),
            guess_stats=msgspec.structs.replace(self._guesses.stats),
            rejected=rejected,
            bytes=self._index.bytes(),
        )

    def _read(self, identity: Identity, tokens: bytes, media: MediaIds | None) -> Reading:
        hashes = self._hashes(identity, tokens, media)
        if not self._index.traits.shared:
            return Reading(identity, hashes, self._index.match(hashes, self._guesses.masks))
        readers = self._readers(identity.model)
        matches = self._index.match(hashes, self._guesses.masks, readers)
        return Reading(identity, hashes, matches, self._index.shared_blocks(hashes))

    def _hashes(self, identity: Identity, tokens: bytes, media: MediaIds | None) -> list[int]:
        if media:
            return block_hashes(tokens, self._index.block_size, root(identity), media)
        return self._remembered.of(tokens, root(identity))

    def _readers(self, model: str) -> int:
        """Mask of the endpoints of a model."""
        readers = 0
        for feed in self._feeds:
            if model in feed.models or model == feed.base_model:
                for holder in feed.holders:
                    readers |= 0 if is_shared(holder) else self._index.bits.bit(holder)
        return readers

    def _new_ledger(self, holder: Holder) -> Ledger:
        if is_shared(holder):
            return StorageLedger(holder, self._index, self._guesses)
        if self.pooling is None:
            return Ledger(holder, self._index, self._guesses, self._storage)
        kind = PoolLedger if holder in self.pooling.members else PooledLedger
        return kind(holder, self._index, self._guesses, self._storage, self.pooling)

    def _decoder(self, source: Source) -> Callable[[bytes], Batch]:
        if not source.tiers:
            return vllm.decode
        own = self.pooling is None or source.holder not in self.pooling.members
        return partial(pool.decode, tiers=source.tiers, settled=own)

    def _storage(self, model: str) -> Ledger:
        return self.ledger(shared_by(model))

    def drop(self, holder: Holder) -> None:
        """Forget one cache."""
        ledger = self._ledgers.pop(holder, None)
        if ledger is not None:
            self._ended.update(ledger.rejected)
            ledger.doubt_shared()
            ledger.drop()
        self._guesses.forget(holder)
        if self.pooling is not None:
            self.pooling.forget(holder)
        self._index.clear(holder)
        self._index.traits.forget(holder)
        self._index.bits.resume(holder)
        for feed in self._feeds:
            if holder in feed.holders:
                feed.missed_something()

    def _known(self, address: str) -> list[Holder]:
        return [holder for holder in self.holders() if holder.address == address]

    def _models(self, holder: Holder) -> set[str]:
        return {model for feed in self._feeds if holder in feed.holders for model in feed.models}
