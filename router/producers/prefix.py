"""precise-prefix-cache-producer: who holds the prompt's prefix, from the engines' own events.

The index is fed elsewhere. Here a request's tokens become matches, and a request that was sent
becomes a guess: its endpoint will soon hold its blocks. A guess lives as long as the engine has
not begun to answer and `speculativeTTL` beyond; a store confirms it, an engine's removal overrules
it, a failed request takes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from indexer.block import Holder, Identity, Match, MediaId, MediaIds, Trust
from indexer.feed import Source
from indexer.prefix_index import Lookup, PrefixIndex
from indexer.speculative import Ticket
from router.pool.endpoint import Endpoint
from router.pool.models import ModelNames
from router.producers.facts import Facts, HeldPrefix, MediaItem, PrefixMatch, Tokens
from router.producers.prefix_parameters import PrecisePrefixParameters
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
    ) -> None:
        """`clock` gives monotonic seconds; `notified`: every endpoint of the pool is subscribed to.

        `base_model` is the model of events whose topic and endpoint name none.
        """
        self.name = name
        self._parameters = parameters
        self._weights = parameters.weights
        self._ttl_s = parameters.ttl_s
        self._resolve = resolve
        self._clock = clock
        self._notified = notified
        self._base_model = base_model
        self._waiting: set[_Guess] = set()
        self._stale_since: dict[str, float] = {}
        self.index = PrefixIndex(
            parameters.token_processor_config.tokens,
            count_repeats=parameters.kv_events_config.count_repeats,
            tiers=tuple(self._weights),
        )

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        tokens = facts.get(Tokens)
        if tokens is None:
            return
        media = _media_blocks(tokens.media, self.index.block_size)
        lookup = self.look_up(request.model, tokens.ids, salt=request.cache_salt, media=media)
        asleep = {e.address for e in endpoints if e.metrics is not None and e.metrics.asleep}
        match = PrefixMatch(lookup.total_blocks, self.index.block_size, self._held(lookup, asleep))
        facts.put(match, self.name)
        facts.put(lookup, self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> _Guess | None:
        lookup = facts.get(Lookup, self.name)
        if lookup is None or not self._parameters.speculative_indexing:
            return None
        holder = Holder(decision.endpoint.address, decision.endpoint.rank)
        ticket = self.index.guess(lookup, holder, self._clock() + self._ttl_s)
        return _Guess(self, ticket)

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

    def tick(self, endpoints: Sequence[Endpoint]) -> None:
        """Follow what changes with time; to be called a few times a second."""
        expires_at = self._clock() + self._ttl_s
        for guess in self._waiting:
            self.index.extend(guess.ticket, expires_at)
        served = {e.address: e for e in endpoints}
        for feed in self.index.feeds():
            endpoint = served.get(feed.source.holder.address)
            model = _main_model(endpoint) or self._base_model
            if model is not None and feed.base_model != model:
                feed.base_model = model
        self._prove(served)

    def sources(self, endpoint: Endpoint) -> Iterator[Source]:
        """Event streams of an endpoint that should be read."""
        events = self._parameters.kv_events_config
        if endpoint.kv_events:
            for stream in endpoint.kv_events:
                holder = Holder(endpoint.address, stream.rank)
                yield Source(holder, stream.endpoint, events.topic_filter)
        elif self._notified and events.discover_pods:
            host = urlsplit(f"//{endpoint.address}").hostname or ""
            port = events.pod_discovery_config.socket_port + endpoint.rank
            dial = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
            yield Source(Holder(endpoint.address, endpoint.rank), dial, events.topic_filter)

    def _held(self, lookup: Lookup, asleep: set[str]) -> Mapping[str, HeldPrefix]:
        held: dict[str, HeldPrefix] = {}
        # Endpoints that hold equally much share one match: weigh it once.
        weighed: dict[int, HeldPrefix] = {}
        for holder, match in lookup.matches.items():
            if holder.address in asleep:
                continue
            prefix = weighed.get(id(match))
            if prefix is None:
                prefix = weighed[id(match)] = self._weighed(match)
            known = held.get(holder.address)
            if known is None or prefix.weighted > known.weighted:
                held[holder.address] = prefix
        return held

    def _weighed(self, match: Match) -> HeldPrefix:
        weights = self._weights
        weighted = float(match.speculative - match.blocks)
        for tier, blocks in match.tiers.items():
            weighted += weights.get(tier, 1.0) * blocks
        return HeldPrefix(match.blocks, match.tiers, match.speculative, weighted)

    def _prove(self, endpoints: Mapping[str, Endpoint]) -> None:
        """A scrape after a lost connection that shows the same process ends the doubt.

        A process that changed shows as a restart of the endpoint, which drops everything first.
        """
        stale = {
            feed.source.holder.address for feed in self.index.feeds() if feed.trust is Trust.STALE
        }
        for address in self._stale_since.keys() - stale:
            del self._stale_since[address]
        for address in stale:
            endpoint = endpoints.get(address)
            metrics = endpoint.metrics if endpoint else None
            if metrics is None or metrics.process_start is None:
                continue
            since = self._stale_since.setdefault(address, metrics.scraped_at)
            if metrics.scraped_at > since:
                self.index.same_process(address)


class _Guess:
    """What a request in flight lets the index expect."""

    def __init__(self, owner: PrecisePrefix, ticket: Ticket) -> None:
        self.ticket = ticket
        self._owner = owner
        self._answered = False
        owner._waiting.add(self)

    def responded(self, status: int) -> None:
        self._owner._waiting.discard(self)
        self._answered = True
        if status >= FAILED_STATUS:
            self._owner.index.withdraw(self.ticket)
        else:
            ttl_s = self._owner._ttl_s
            self._owner.index.extend(self.ticket, self._owner._clock() + ttl_s)

    def ended(self) -> None:
        self._owner._waiting.discard(self)
        if not self._answered:
            self._owner.index.withdraw(self.ticket)


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
