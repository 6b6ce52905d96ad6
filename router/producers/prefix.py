"""precise-prefix-cache-producer: who holds the prompt's prefix, from the engines' own events.

The index is fed elsewhere. Here a request's tokens become matches, and a request that was sent
becomes a guess: its endpoint will soon hold its blocks. A guess lives as long as the engine has
not begun to answer and `speculativeTTL` beyond; a store confirms it, an engine's removal overrules
it, a failed request takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from indexer.block import Holder, Identity, Match, MediaId, MediaIds, Trust
from indexer.central import Central
from indexer.feed import Source
from indexer.prefix_index import Lookup, PrefixIndex
from indexer.speculative import Ticket
from router.config.motor_schema import MediaPorts
from router.extproc.headers import DATA_PARALLEL_RANK
from router.pool.endpoint import Endpoint
from router.pool.models import ModelNames
from router.producers import ranks
from router.producers.event_sources import Locator, sources
from router.producers.facts import Facts, HeldPrefix, MediaItem, PrefixMatch, Tokens
from router.producers.media_sources import MediaSources
from router.producers.prefix_parameters import UNBOUNDED, Bounds, PrecisePrefixParameters
from router.producers.shared_storage import credited
from router.request.types import Request
from router.scheduling.types import Decision

MAX_MATCHED_BYTES = 4 * 1024 * 1024
"""Of a longer prompt the first million tokens are looked up: no engine holds more of one."""

FAILED_STATUS = 400
"""From this status on the engine has not computed the prompt."""


class PrecisePrefix:
    """States PrefixMatch.

    Attributes:
        name: Instance name.
        index: Whatever reads the engines' events feeds it.
        bounds: What the index may take.
        zmq_endpoint: ZMQ address to bind, for engines that connect to it; empty: none.
        unusable: Tells which event streams no socket could be made for, and why.
        zmq_errors: Tells how often ZMQ could not do what it should, by endpoint and operation.
        central: The streams of engines that connect to us, where there are any.
        registered: Tells which streams of others are to be read into the same index.
        same_size: Engines are expected to have blocks of exactly the index's size.
    """

    def __init__(
        self,
        name: str,
        parameters: PrecisePrefixParameters,
        *,
        resolve: Callable[[str], ModelNames],
        clock: Callable[[], float],
        notified: bool,
        base_model: str | None = None,
        bounds: Bounds = UNBOUNDED,
        media: MediaPorts | None = None,
    ) -> None:
        """`clock` gives monotonic seconds; `notified`: every endpoint of the pool is subscribed to.

        `base_model` is the model of events whose topic and endpoint name none; `media` tells where
        events of lower tiers come from, beside the engines' own.
        """
        self.name = name
        self._parameters = parameters
        self._weights = parameters.weights
        self._ttl_s = parameters.ttl_s
        self._resolve = resolve
        self._clock = clock
        self._notified = notified
        self._base_model = base_model
        self.bounds = bounds
        self._waiting: set[_Guess] = set()
        self._stale_since: dict[str, float | None] = {}
        """Address → time of the scrape that tells which process was lost; None without one."""
        self.zmq_endpoint = parameters.kv_events_config.zmq_endpoint
        self.central: Central | None = None
        self.unusable: Callable[[], Mapping[Source, str]] = dict
        self.zmq_errors: Callable[[], Mapping[tuple[str, str], int]] = dict
        self.index = PrefixIndex(
            parameters.token_processor_config.tokens,
            count_repeats=parameters.kv_events_config.count_repeats,
            tiers=tuple(self._weights),
            index_bytes=bounds.index_bytes,
            index_bytes_per_endpoint=bounds.index_bytes_per_endpoint,
            pools=media is not None,
        )
        self.registered: Callable[[], Iterable[Source]] = tuple
        self.same_size = media is not None
        self._media: MediaSources | None = None
        if media is not None and self.index.pooling is not None:
            self._media = MediaSources(media, self.index.pooling)

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        tokens = facts.get(Tokens)
        if tokens is None:
            return
        media = _media_blocks(tokens.media, self.index.block_size)
        lookup = self.look_up(request.model, tokens.ids, salt=request.cache_salt, media=media)
        asleep = {e.address for e in endpoints if e.metrics is not None and e.metrics.asleep}
        held, best = self._held(self.matches(lookup, endpoints), asleep)
        match = PrefixMatch(lookup.total_blocks, self.index.block_size, held, best)
        facts.put(match, self.name)
        facts.put(lookup, self.name)

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        """Of several ranks behind the endpoint's port, name the one that holds the prompt."""
        match = facts.get(PrefixMatch, self.name)
        rank = None if match is None else ranks.wanted(request, match, decision.endpoint)
        if rank is None:
            return decision
        headers = {**decision.headers, DATA_PARALLEL_RANK: str(rank)}
        return msgspec.structs.replace(decision, headers=headers)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> _Guess | None:
        lookup = facts.get(Lookup, self.name)
        if lookup is None or not self._parameters.speculative_indexing:
            return None
        holders = [Holder(endpoint.address, endpoint.rank) for endpoint in decision.holders]
        holders[0] = Holder(decision.endpoint.address, ranks.guessed(request, decision))
        expires_at = self._clock() + self._ttl_s
        return _Guess(self, [self.index.guess(lookup, holder, expires_at) for holder in holders])

    def look_up(
        self,
        model: str,
        tokens: bytes,
        *,
        lora: str | None = None,
        salt: str | None = None,
        media: MediaIds | None = None,
    ) -> Lookup:
        """Who holds how much of packed `tokens` for a model name of a request.

        `lora` names an adapter where `model` is the base model; else the pool's models tell.
        """
        names = self._resolve(model)
        adapter = lora or names.adapter
        identities = [Identity(base, adapter, salt) for base in names.names]
        return self.index.match(identities, tokens[:MAX_MATCHED_BYTES], self._clock(), media)

    def matches(self, lookup: Lookup, endpoints: Sequence[Endpoint]) -> Mapping[Holder, Match]:
        """What each cache is credited with; of silent endpoints, what they can load."""
        return credited(lookup, endpoints, self.index.feeds())

    def tick(self, endpoints: Sequence[Endpoint]) -> None:
        """Follow what changes with time; to be called a few times a second."""
        expires_at = self._clock() + self._ttl_s
        for guess in self._waiting:
            for ticket in guess.tickets:
                self.index.extend(ticket, expires_at)
        served = {e.address: e for e in endpoints}
        for feed in self.index.feeds():
            endpoint = served.get(feed.source.holder.address)
            model = _main_model(endpoint) or self._base_model
            if model is not None and feed.base_model != model:
                feed.base_model = model
        self._prove(served)

    def sources(self, endpoints: Sequence[Endpoint]) -> Iterator[Source]:
        """Event streams that should be read."""
        for endpoint in endpoints:
            events = self._parameters.kv_events_config
            yield from sources(endpoint, events, notified=self._notified)
        if self._media is not None:
            yield from self._media.follow(endpoints)
        yield from self.registered()

    def open_central(self, endpoints: Callable[[], Sequence[Endpoint]]) -> Central | None:
        """The streams of engines that connect to `zmq_endpoint`; None without such an address."""
        if not self.zmq_endpoint:
            return None
        locator = Locator(self._parameters.kv_events_config, endpoints)
        return Central(self.index, locator, locator.topic_filter)

    def _held(
        self, matches: Mapping[Holder, Match], asleep: set[str]
    ) -> tuple[Mapping[str, HeldPrefix], Mapping[str, int]]:
        """What each endpoint holds: its best rank's share, and which rank that is."""
        held: dict[str, HeldPrefix] = {}
        best: dict[str, int] = {}
        # Endpoints that hold equally much share one match: weigh it once.
        weighed: dict[int, HeldPrefix] = {}
        for holder, match in matches.items():
            if holder.address in asleep:
                continue
            prefix = weighed.get(id(match))
            if prefix is None:
                prefix = weighed[id(match)] = self._weighed(match)
            known = held.get(holder.address)
            if known is None or _more(prefix, known):
                held[holder.address] = prefix
                if holder.rank or known is not None:
                    best[holder.address] = holder.rank
        return held, best

    def _weighed(self, match: Match) -> HeldPrefix:
        weights = self._weights
        weighted = float(match.speculative - match.blocks)
        for tier, blocks in match.tiers.items():
            weighted += weights.get(tier, 1.0) * blocks
        return HeldPrefix(match.blocks, match.tiers, match.speculative, weighted)

    def _prove(self, endpoints: Mapping[str, Endpoint]) -> None:
        """A scrape after a lost connection that shows the same process ends the doubt.

        A process that changed shows as a restart of the endpoint, which drops everything first;
        but where what is known was kept by a former router, as another start than it had noted.
        """
        stale = [feed for feed in self.index.feeds() if feed.trust is Trust.STALE]
        for address in self._stale_since.keys() - {f.source.holder.address for f in stale}:
            del self._stale_since[address]
        for feed in stale:
            address = feed.source.holder.address
            endpoint = endpoints.get(address)
            metrics = endpoint.metrics if endpoint else None
            if metrics is None or metrics.process_start is None:
                self._stale_since.setdefault(address, None)
                continue
            since = self._stale_since.setdefault(address, metrics.scraped_at)
            if feed.restored is None:
                if since is not None and metrics.scraped_at > since:
                    self.index.same_process(address)
            elif feed.restored.process_start == metrics.process_start:
                feed.proven()
            elif feed.restored.process_start is not None:
                self.index.restarted(address)


class _Guess:
    """What a request in flight lets the index expect."""

    def __init__(self, owner: PrecisePrefix, tickets: Sequence[Ticket]) -> None:
        self.tickets = tickets
        self._prefill = tickets[1:]
        self._owner = owner
        self._answered = False
        owner._waiting.add(self)

    def served_by(self, address: str) -> None:
        """The engine that was to hold the blocks never computed them; where another one computes
        the prompt, that one still does."""
        self._owner.index.withdraw(self.tickets[0])
        self.tickets = self.tickets[1:]

    def prefill_failed(self) -> None:
        """The prompt was computed where it is answered."""
        for ticket in self._prefill:
            self._owner.index.withdraw(ticket)
        self.tickets = [ticket for ticket in self.tickets if ticket not in self._prefill]

    def responded(self, status: int) -> None:
        self._owner._waiting.discard(self)
        self._answered = True
        if status >= FAILED_STATUS:
            self._withdraw()
        else:
            expires_at = self._owner._clock() + self._owner._ttl_s
            for ticket in self.tickets:
                self._owner.index.extend(ticket, expires_at)

    def ended(self) -> None:
        self._owner._waiting.discard(self)
        if not self._answered:
            self._withdraw()

    def _withdraw(self) -> None:
        for ticket in self.tickets:
            self._owner.index.withdraw(ticket)


def _more(prefix: HeldPrefix, known: HeldPrefix) -> bool:
    """Of ranks that hold equally much, one that has confirmed more of it."""
    return (prefix.weighted, prefix.blocks) > (known.weighted, known.blocks)


def _main_model(endpoint: Endpoint | None) -> str | None:
    if endpoint is None or endpoint.models is None or not endpoint.models.names:
        return None
    return endpoint.models.names[0]


def _media_blocks(media: Sequence[MediaItem], block_size: int) -> MediaIds | None:
    """Block number -> names of the media items that touch it, in order of position."""
    blocks: dict[int, list[MediaId]] = {}
    for item in media:
        last = item.offset + max(item.length, 1) - 1
        for block in range(item.offset // block_size, last // block_size + 1):
            blocks.setdefault(block, []).append(item.name)
    return blocks or None
