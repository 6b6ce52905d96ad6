"""An index's figures for the metrics page: what it holds, and what came, went or did not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from indexer.index import BlockIndex
from indexer.speculative import GuessStats
from router.producers.prefix import PrecisePrefix
from router.telemetry.samples import Sample, Values

PRECISE = "precise-prefix-cache-producer"

_SKIPPED = ("cache_kind", "reason")


def samples(prefix: PrecisePrefix) -> Iterator[Sample]:
    """Of one index; those under llm-d's names are of all of them."""
    stats, name = prefix.index.stats(), prefix.name
    sizes: Values = {(name, table): float(n) for table, n in stats.sizes.items()}
    yield Sample("warmroute_index_entries", "By table.", sizes, ("producer", "table"))
    held: Values = {(name, PRECISE): float(stats.sizes.get("blocks", 0))}
    labels = ("plugin_name", "plugin_type")
    yield Sample("llm_d_epp_prefix_indexer_size", "Blocks that are known.", held, labels)
    parked: Counter[tuple[str, ...]] = Counter()
    for holder, ledger in prefix.index.ledgers.items():
        parked[name, holder.address, str(holder.rank)] += ledger.parked_blocks
    yield Sample(
        "warmroute_parked_blocks", "That wait for a parent.", parked,
        ("producer", "model_server_endpoint", "rank"),
    )  # fmt: skip
    taken: Values = {(name,): float(stats.bytes)}
    yield Sample("warmroute_index_bytes", "About what blocks take.", taken, ("producer",))
    bound: Values = {(name,): float(prefix.bounds.index_bytes or 0)}
    yield Sample("warmroute_index_bytes_bound", "0: none.", bound, ("producer",))
    rejected: Values = {(name, str(reason)): float(n) for reason, n in stats.rejected.items()}
    yield Sample(
        "warmroute_kv_events_rejected", "Messages and events left out.", rejected,
        ("producer", "reason"), True,
    )  # fmt: skip
    events: Values = {(name,): float(sum(feed.stats.events for feed in prefix.index.feeds()))}
    yield Sample("warmroute_kv_events_applied", "By open streams.", events, ("producer",))
    yield from _guesses(name, stats.guess_stats)
    yield from _turnover(prefix.index.blocks)


def _guesses(name: str, guesses: GuessStats) -> Iterator[Sample]:
    ends: Values = {
        (name, "confirmed"): float(guesses.confirmed),
        (name, "expired"): float(guesses.expired),
        (name, "withdrawn"): float(guesses.withdrawn),
        (name, "overruled"): float(guesses.overruled),
    }
    yield Sample("warmroute_guesses_ended", "Blocks.", ends, ("producer", "how"), True)
    age_s: Values = {(name,): guesses.confirmed_age_s}
    yield Sample(
        "warmroute_guess_confirmation_seconds", "From guess to store, by block, added up.", age_s,
        ("producer",), True,
    )  # fmt: skip
    recorded: Values = {(name,): float(guesses.recorded)}
    yield Sample("warmroute_guesses_recorded", "Blocks.", recorded, ("producer",), True)


def _turnover(blocks: BlockIndex) -> Iterator[Sample]:
    turnover = blocks.turnover
    for name, text, count in (
        ("index_admissions", "Blocks that an endpoint came to have in a tier.", turnover.admitted),
        (
            "index_evictions",
            "Blocks that left it there: removed, or forgotten with all the endpoint had.",
            blocks.evicted,
        ),
        (
            "events_dedup_removed_hashes_suppressed",
            "Removals of one copy of a block of which the endpoint has others left.",
            turnover.kept,
        ),
        (
            "events_dedup_removed_hashes_forwarded",
            "Removals that took a block away.",
            turnover.removed,
        ),
    ):
        value: Values = {(): float(count)}
        yield Sample(f"llm_d_epp_kv_cache_{name}", text, value, counter=True)
    for name, text, skipped in (
        ("stores", "Stores of a kind that cannot count.", turnover.skipped_stores),
        ("removals", "Removals of what is not followed.", turnover.skipped_removals),
    ):
        values: Values = {(kind, str(why)): float(n) for (kind, why), n in skipped.items()}
        yield Sample(f"llm_d_epp_kv_cache_events_{name}_skipped", text, values, _SKIPPED, True)
