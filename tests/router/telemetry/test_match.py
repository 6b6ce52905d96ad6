from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from indexer.feed import Source
from indexer.storage import shared_by
from router.errors import BadRequest, TokensUnknown
from router.pool.endpoint import Endpoint, KvEvents
from router.producers.facts import Facts, Tokens
from router.request.types import Kind, Request
from router.telemetry.match import Matcher
from tests.router.producers.test_prefix import PROMPT, A, B, Fixture, stored
from tests.support import make


class TextTokens:
    """Stands for the sidecar: every text is the same prompt."""

    name = "tokens"

    def __init__(self) -> None:
        self.kinds: list[Kind] = []

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        self.kinds.append(request.kind)
        if request.token_ids is not None:
            facts.put(Tokens(request.token_ids))
        elif request.model != "untokenized":
            facts.put(Tokens(PROMPT))

    def decided(self, *_: object) -> None:
        return None


def matcher(fixture: Fixture) -> Matcher:
    return Matcher([TextTokens(), fixture.prefix], fixture.prefix, fixture.pool.snapshot)


def asked(**question: object) -> bytes:
    return msgspec.json.encode({"model": "m", **question})


@pytest.mark.parametrize(
    "question",
    [
        {"token_ids": list(range(64))},
        {"prompt": list(range(64))},
        {"prompt": "text"},
        {"messages": [{"role": "user", "content": "text"}]},
    ],
    ids=["token-ids", "prompt-ids", "prompt", "messages"],
)
async def test_every_form_of_a_prompt_is_looked_up(question: dict[str, object]) -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1, 2, 3], range(48)), stored([1], range(16), medium="CPU"))
    answer = msgspec.to_builtins(await matcher(fixture).answer(asked(**question)))
    assert answer == {
        "tokens": 64,
        "block_size": 16,
        "total_blocks": 4,
        "endpoints": {
            A: {
                "blocks": 3,
                "matched_tokens": 48,
                "tiers": {"gpu": 3},
                "speculative": 3,
                "trust": "exact",
            },
            B: {
                "blocks": 0,
                "matched_tokens": 0,
                "tiers": {},
                "speculative": 0,
                "trust": "partial",
            },
        },
    }


async def test_adapter_and_salt_are_part_of_the_question() -> None:
    fixture = Fixture(make.endpoint(A))
    salted = stored([1], range(16), extra_keys=[["s"]])
    adapted = stored([2], range(16), lora_name="sql", extra_keys=[["sql"]])
    fixture.announce(A, salted, adapted)
    ids = list(range(16))
    for question, blocks in (
        ({}, 0),
        ({"cache_salt": "s"}, 1),
        ({"lora_name": "sql"}, 1),
        ({"lora_name": "sql", "cache_salt": "s"}, 0),
    ):
        answer = await matcher(fixture).answer(asked(token_ids=ids, **question))
        assert answer["endpoints"][A]["blocks"] == blocks


async def test_ranks_behind_one_port_are_told_apart() -> None:
    streams = tuple(KvEvents(endpoint=f"tcp://h:{r}", rank=r) for r in (0, 1))
    fixture = Fixture(make.endpoint(A, kv_events=streams))
    fixture.announce(A, stored([1, 2], range(32)))  # the feed opened last: rank 1
    answer = await matcher(fixture).answer(asked(token_ids=list(range(64))))
    told = answer["endpoints"][A]
    assert told["blocks"] == 2
    assert {rank: entry["blocks"] for rank, entry in told["ranks"].items()} == {"0": 0, "1": 2}


async def test_a_guess_about_no_rank_in_particular_counts_for_the_endpoint() -> None:
    streams = tuple(KvEvents(endpoint=f"tcp://h:{r}", rank=r) for r in (0, 1))
    engine = make.endpoint(A, kv_events=streams)
    fixture = Fixture(engine)
    fixture.prefix.decided(make.request(), await fixture.facts(), make.decision(engine))
    for heard in (True, False):
        answer = await matcher(fixture).answer(asked(token_ids=list(range(64))))
        told = answer["endpoints"][A]
        assert (told["blocks"], told["speculative"]) == (0, 4)
        assert set(told.get("ranks", {})) == ({"0", "1"} if heard else set())
        for feed in list(fixture.prefix.index.feeds()):
            fixture.prefix.index.close(feed)


async def test_shared_storage_is_credited_to_endpoints_and_listed_as_none_itself() -> None:
    fixture = Fixture()
    feed = fixture.prefix.index.open(Source(shared_by("m"), "tcp://x", unordered=True))
    payload = msgspec.msgpack.encode([1.0, [stored([1, 2], range(32))], 0])
    feed.receive([b"kv@OBJECT_STORE@m", bytes(8), payload], 1.0)
    answer = await matcher(fixture).answer(asked(token_ids=list(range(64))))
    assert set(answer["endpoints"]) == {A, B}
    for told in answer["endpoints"].values():
        assert (told["blocks"], told["tiers"]) == (2, {"shared_storage": 2})


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", asked(), asked(token_ids=[-1]), asked(token_ids=[2**32]), asked(prompt=3)],
    ids=["empty", "open", "list", "no-prompt", "negative", "too-large", "wrong-type"],
)
async def test_a_question_that_makes_no_sense_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        await matcher(Fixture()).answer(body)


async def test_a_prompt_nobody_can_tokenize_is_said() -> None:
    with pytest.raises(TokensUnknown, match="tokenizer"):
        await matcher(Fixture()).answer(b'{"model": "untokenized", "prompt": "x"}')
