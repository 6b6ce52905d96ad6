"""Events arrive, but no request can match them: what differs, with both values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from indexer.events import Reason
from indexer.feed import Feed
from indexer.storage import is_shared
from router.telemetry.decisions import Record
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

MIN_GUESSED = 4
"""So many guessed blocks came to their end, before none of them being confirmed says anything."""

MIN_COMPARED = 2
"""So many requests must tell of different counts."""

_UNFIT = Reason.BLOCK_SIZE_MISMATCH


def block_size(case: Case) -> Iterator[Finding]:
    """The engine's block size and the index's do not divide each other."""
    for prefix in case.prefixes:
        size = prefix.index.block_size
        told = {e.address: e.metrics.block_size for e in case.endpoints if e.metrics is not None}
        sizes = {a: {s} for a, s in told.items() if s}
        for holder, ledger in prefix.index.ledgers.items():
            sizes[holder.address] = sizes.get(holder.address, set()) | ledger.sizes
        for address, known in sorted(sizes.items()):
            unfit = sorted(s for s in known if s % size and size % s)
            if not unfit:
                continue
            yield Finding(
                code="block-size-differs",
                about=address,
                what=f"its blocks of {unfit[0]} tokens do not fit the index's of {size}, so no "
                "request can match them",
                evidence={"engine": unfit[0], "index": size, "producer": prefix.name},
                fix=f"set tokenProcessorConfig.blockSize of {prefix.name} to {unfit[0]}, or start "
                f"the engine with --block-size {size}",
            )


def model(case: Case) -> Iterator[Finding]:
    """Events name a model that nobody asks for."""
    names = {e.address: e.models for e in case.endpoints}
    for _, feed in case.feeds():
        address, told = feed.source.holder.address, set(feed.models)
        served = names.get(address)
        known = {*served.names, served.root} if served is not None else set()
        asked = {r.target_model for r in case.answered(address) if r.target_model}
        meant = {name for model in asked for name in case.resolve(model).names}
        if not told or not (known or meant) or told & (known | meant):
            continue
        yield Finding(
            code="model-differs",
            about=address,
            what=f"its events are of model {_some(told)}, its requests of {_some(meant or known)}",
            evidence={
                "events": sorted(told),
                "requests": sorted(asked),
                "served": sorted(name for name in known if name),
            },
            fix="let the topic of its events (vLLM: kv-events-config.topic) end in the served "
            "name, or leave the model out of it",
        )


def topic(case: Case) -> Iterator[Finding]:
    """The filter lets no topic of the engine through."""
    for _, feed in case.feeds():
        if feed.unwanted is None:
            continue
        heard, wanted = feed.unwanted.decode("utf-8", "replace"), feed.source.topic_filter
        yield Finding(
            code="topic-differs",
            about=feed.source.holder.address,
            what=f"its events come under topic {heard!r}, and only those that begin with "
            f"{wanted!r} are read",
            evidence={
                "engine": heard,
                "filter": wanted,
                "left_out": feed.rejected[Reason.FILTERED],
            },
            fix="set kvEventsConfig.topicFilter to the beginning of the engine's topic, or "
            "leave it out",
        )


def strangers(case: Case) -> Iterator[Finding]:
    """Events come to the socket for all engines, and their topics name none of them."""
    for prefix in case.prefixes:
        central = prefix.central
        if central is None:
            continue
        addresses = _come("stranger", prefix.name, central.unknown, case)
        topics = _come("topic", prefix.name, central.topics, case)
        if not (addresses or topics):
            continue
        yield Finding(
            code="topic-unknown",
            about=prefix.name,
            what="events come whose topic names no endpoint",
            evidence={
                "addresses": addresses[:8],
                "topics_left_out": topics[:8],
                "endpoints": [e.address for e in case.endpoints][:8],
            },
            fix="let the engines' topic be kv@ADDRESS@MODEL, with the address that the endpoints "
            "file gives them",
        )


def _come(kind: str, producer: str, counts: Mapping[str, int], case: Case) -> list[str]:
    """Those under which messages came lately."""
    return sorted(w for w, count in counts.items() if case.grown((kind, producer, w), count))


def unnamed(case: Case) -> Iterator[Finding]:
    """Nothing says which model the events are of."""
    for _, feed in case.feeds():
        if not feed.unnamed:
            continue
        yield Finding(
            code="model-unknown",
            about=feed.source.holder.address,
            what=f"{feed.unnamed} messages wait: neither topic nor endpoint names their model",
            evidence={"waiting": feed.unnamed, "served": None},
            fix="see that the engine answers /v1/models, or set modelName of the token-producer",
        )


def tokens(case: Case) -> Iterator[Finding]:
    """The engine counts other tokens than the tokenizer, and stores other blocks."""
    for address, guesses in _guesses(case).items():
        if guesses["confirmed"]:
            continue
        answered = case.answered(address)
        differing = [record for record in answered if _differs(record)]
        if len(differing) < MIN_COMPARED or any(_matched(r, address) for r in answered):
            continue
        latest = differing[-1]
        engine = latest.usage.prompt_tokens if latest.usage is not None else 0
        yield Finding(
            code="tokenizer-differs",
            about=address,
            what=f"of one prompt the tokenizer makes {latest.prompt_tokens} tokens, the engine "
            f"{engine}",
            evidence={
                "request_id": latest.request_id,
                "tokenizer": latest.prompt_tokens,
                "engine": engine,
                "model": latest.target_model,
                "differing": len(differing),
                **guesses,
            },
            fix="load the engine's own tokenizer and chat template: warmroute tokenizer "
            f"--model {latest.target_model}=DIR",
        )


def unconfirmed(case: Case) -> Iterator[Finding]:
    """Engines store blocks, but never those that were expected of them."""
    for address, guesses in _guesses(case).items():
        if guesses["confirmed"] or guesses["expired"] < MIN_GUESSED:
            continue
        held = sum(
            sum(prefix.index.state(holder).blocks.values())
            for prefix in case.prefixes
            for holder in prefix.index.ledgers
            if holder.address == address
        )
        yield Finding(
            code="speculation-unconfirmed",
            about=address,
            what=f"none of {guesses['recorded']} blocks that it was expected to store was among "
            f"those it told of",
            evidence={**guesses, "blocks_told_of": held},
            fix="compare POST /debug/match of a prompt it has just answered: a tokenizer, chat "
            "template or adapter name that differs makes other blocks of the same prompt",
        )


def _guesses(case: Case) -> dict[str, dict[str, int]]:
    """Endpoint -> how guesses of what it will store ended; only of those that are heard."""
    found: dict[str, dict[str, int]] = {}
    for prefix in case.prefixes:
        heard = {f.source.holder.address for f in prefix.index.feeds() if _speaks(f)}
        for holder in prefix.index.holders():
            if is_shared(holder) or holder.address not in heard:
                continue
            stats = prefix.index.guess_stats(holder)
            counts = found.setdefault(holder.address, {"recorded": 0, "confirmed": 0, "expired": 0})
            for name in counts:
                counts[name] += getattr(stats, name)
    return found


def _speaks(feed: Feed) -> bool:
    return feed.stats.events > 0


def _matched(record: Record, address: str) -> bool:
    """Something was held of the prompt that events had told of."""
    held = record.prefix.get(address)
    return held is not None and held.blocks > 0


def _differs(record: Record) -> bool:
    """The engine counted other tokens; of several prompts in one request it counts all."""
    usage, known = record.usage, record.prompt_tokens
    if record.prompts > 1:
        return False
    return usage is not None and known is not None and usage.prompt_tokens != known


def _some(names: set[str] | set[str | None]) -> str:
    return ", ".join(sorted(repr(name) for name in names if name)[:3])
