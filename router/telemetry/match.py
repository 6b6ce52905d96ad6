"""Answers `POST /debug/match`: who holds how much of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from indexer.block import Holder, Match
from indexer.hashing import pack
from indexer.prefix_index import Lookup
from indexer.storage import is_shared
from router.errors import BadRequest, TokensUnknown
from router.pool.endpoint import Endpoint
from router.producers import ranks
from router.producers.facts import Facts, Tokens
from router.producers.prefix import PrecisePrefix
from router.producers.types import Producer
from router.request.parse import parse
from router.request.types import Request


class _Question(msgspec.Struct):
    model: str = ""
    token_ids: list[int] | None = None
    lora_name: str | None = None
    cache_salt: str | None = None
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decoder = msgspec.json.Decoder(_Question)


class Matcher:
    """Looks prompts up as a request would, without sending one."""

    def __init__(
        self,
        producers: Sequence[Producer],
        prefix: PrecisePrefix,
        endpoints: Callable[[], Sequence[Endpoint]],
    ) -> None:
        self._producers = producers
        self._prefix = prefix
        self._endpoints = endpoints

    async def answer(self, body: bytes) -> Mapping[str, Any]:
        """`body`: an OpenAI body or ``{"model", "token_ids"}``. Raises RouterError."""
        try:
            question = _decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(f"cannot read the question: {error}") from error
        tokens = await self._tokens(question, body)
        lookup = self._prefix.look_up(
            question.model, tokens, lora=question.lora_name, salt=question.cache_salt
        )
        return self._described(tokens, lookup)

    async def _tokens(self, question: _Question, body: bytes) -> bytes:
        if question.token_ids is not None:
            try:
                return pack(question.token_ids)
            except (OverflowError, TypeError) as error:
                raise BadRequest(f"an id does not fit - at `$.token_ids`: {error}") from error
        facts = Facts()
        request = _as_request(question, body)
        for producer in self._producers:
            if facts.get(Tokens) is None:
                await producer.produce(request, (), facts)
        tokens = facts.get(Tokens)
        if tokens is None:
            raise TokensUnknown("the prompt's token ids are not known: is the tokenizer serving?")
        return tokens.ids

    def _described(self, tokens: bytes, lookup: Lookup) -> Mapping[str, Any]:
        index = self._prefix.index
        size = index.block_size
        matches = self._prefix.matches(lookup, self._endpoints())
        endpoints: dict[str, dict[str, Any]] = {}
        subscribed = {feed.source.holder for feed in index.feeds()}
        for holder in sorted({*index.holders(), *subscribed, *matches}):
            if is_shared(holder):
                continue
            entry = self._entry(holder, matches.get(holder), size)
            known = endpoints.setdefault(holder.address, {"ranks": {}})
            known["ranks"][str(holder.rank)] = entry
        for known in endpoints.values():
            somewhere = known["ranks"].pop(str(ranks.UNKNOWN), None)
            told = list(known["ranks"].values()) or [somewhere]
            known.update(max(told, key=lambda e: (e["blocks"], e["speculative"])))
            if somewhere is not None:
                known["speculative"] = max(known["speculative"], somewhere["speculative"])
            if len(known["ranks"]) < 2:
                del known["ranks"]
        return {
            "tokens": len(tokens) // 4,
            "block_size": size,
            "total_blocks": lookup.total_blocks,
            "endpoints": endpoints,
        }

    def _entry(self, holder: Holder, match: Match | None, size: int) -> dict[str, Any]:
        blocks = match.blocks if match else 0
        return {
            "blocks": blocks,
            "matched_tokens": blocks * size,
            "tiers": match.tiers if match else {},
            "speculative": match.speculative if match else 0,
            "trust": self._prefix.index.trust(holder),
        }


def _as_request(question: _Question, body: bytes) -> Request:
    path = "/v1/completions" if question.messages is msgspec.UNSET else "/v1/chat/completions"
    return parse({":method": "POST", ":path": path}, body, "debug-match")
