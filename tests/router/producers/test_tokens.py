from __future__ import annotations

import asyncio

import pytest

from router.pool.endpoint import ServedModels
from router.producers.breaker import FAILURES
from router.producers.facts import Facts, MediaItem, Tokens, Untokenized
from router.producers.tokens import Missing, TokenProducer, TokenStats
from router.request.types import Request
from tests.support import make

SEVEN = Tokens(b"\7\0\0\0")


class Answers:
    """A backend that says one thing, and notes what it was asked."""

    def __init__(self, answer: Tokens | Missing) -> None:
        self.answer = answer
        self.models: list[str] = []
        self.stats = TokenStats()

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        self.models.append(model)
        return self.answer

    async def run(self) -> None:
        await asyncio.Event().wait()


class Fixture:
    """A producer over such a backend, with a clock that a test moves."""

    def __init__(self, answer: Tokens | Missing, model_name: str = "") -> None:
        self.backend = Answers(answer)
        self.now = 0.0
        self.producer = TokenProducer(
            "tokens", self.backend, lambda m: f"base-of-{m}", lambda: self.now, model_name
        )

    async def tokens(self, **request: object) -> Tokens | None:
        facts = Facts()
        await self.producer.produce(make.request(prompt_known=True, **request), (), facts)
        return facts.get(Tokens, "tokens")


async def test_the_base_models_tokenizer_is_asked_unless_one_is_named() -> None:
    by_model, named = Fixture(SEVEN), Fixture(SEVEN, "always-this")
    assert await by_model.tokens(model="sql") == SEVEN
    assert await named.tokens(model="sql") == SEVEN
    assert by_model.backend.models == ["base-of-sql"]
    assert named.backend.models == ["always-this"]
    assert by_model.backend.stats.tokenized == 1


async def test_media_come_with_the_ids() -> None:
    with_media = Tokens(b"\7\0\0\0", [MediaItem("a", 0, 1)])
    assert await Fixture(with_media).tokens() == with_media


async def test_prompts_known_in_part_are_counted() -> None:
    fixture = Fixture(Tokens(b"\7\0\0\0", partial=True))
    assert await fixture.tokens() is not None
    fixture.backend.answer = SEVEN
    await fixture.tokens()
    assert (fixture.backend.stats.tokenized, fixture.backend.stats.partial) == (2, 1)


async def test_ids_that_the_client_sent_are_used_as_they_are() -> None:
    fixture = Fixture(Missing.FAILED)
    assert await fixture.tokens(token_ids=b"\7\0\0\0") == SEVEN
    assert fixture.backend.models == []


async def test_missing_ids_are_counted_by_reason() -> None:
    fixture = Fixture(Missing.NOT_READY)
    assert await fixture.tokens() is None
    assert fixture.backend.stats.missing == {Missing.NOT_READY: 1}


@pytest.mark.parametrize(
    ("model", "served", "reason"),
    [
        ("made-up", [ServedModels(names=("m",))], Missing.NOT_SERVED),
        ("made-up", [ServedModels(names=("m",)), None], Missing.UNKNOWN_MODEL),
        ("made-up", [], Missing.UNKNOWN_MODEL),
        ("m", [ServedModels(names=("m",))], Missing.UNKNOWN_MODEL),
        ("sql", [ServedModels(names=("m",), adapters={"sql": "m"})], Missing.UNKNOWN_MODEL),
        ("", [ServedModels(names=("m",))], Missing.UNKNOWN_MODEL),
    ],
    ids=["nobody", "who-knows", "no-endpoints", "served", "adapter", "no-name"],
)
async def test_a_name_that_no_endpoint_serves_is_the_clients_fault_not_the_tokenizers(
    model: str, served: list[ServedModels | None], reason: Missing
) -> None:
    fixture, facts = Fixture(Missing.UNKNOWN_MODEL), Facts()
    endpoints = [make.endpoint(f"e:{n}", models=models) for n, models in enumerate(served)]
    request = make.request(prompt_known=True, model=model)
    await fixture.producer.produce(request, endpoints, facts)
    assert fixture.backend.stats.missing == {reason: 1}
    assert facts.get(Untokenized) == Untokenized(str(reason))


async def test_a_prompt_that_cannot_be_read_asks_nobody() -> None:
    fixture = Fixture(SEVEN)
    await fixture.producer.produce(make.request(prompt_known=False), (), Facts())
    assert fixture.backend.models == []


@pytest.mark.parametrize("answer", [Missing.TIMEOUT, Missing.EXPIRED])
async def test_a_backend_that_hangs_is_left_alone_and_tried_again(answer: Missing) -> None:
    fixture = Fixture(answer)
    for _ in range(20):
        await fixture.tokens()
    assert len(fixture.backend.models) == FAILURES
    assert fixture.backend.stats.missing[Missing.BREAKER_OPEN] == 20 - FAILURES
    assert fixture.backend.stats.hanging
    fixture.now += 1.0
    fixture.backend.answer = SEVEN
    assert [await fixture.tokens() for _ in range(3)] == [SEVEN] * 3
    assert not fixture.backend.stats.hanging


@pytest.mark.parametrize("answer", [Missing.UNAVAILABLE, Missing.BUSY])
async def test_what_costs_no_time_opens_no_breaker(answer: Missing) -> None:
    fixture = Fixture(answer)
    for _ in range(20):
        await fixture.tokens()
    assert len(fixture.backend.models) == 20


async def test_waits_for_the_backend_are_timed_and_reasons_are_stated() -> None:
    fixture = Fixture(Missing.TIMEOUT)
    answer = fixture.backend.tokenize

    async def slow(model: str, request: Request) -> Tokens | Missing:
        fixture.now += 0.25
        return await answer(model, request)

    fixture.backend.tokenize = slow  # type: ignore[method-assign]
    facts = Facts()
    await fixture.producer.produce(make.request(prompt_known=True), (), facts)
    assert facts.get(Untokenized) == Untokenized("timeout")
    fixture.backend.answer = SEVEN
    await fixture.tokens()
    assert fixture.backend.stats.took_s == 0.5
    assert sum(fixture.backend.stats.took_buckets) == 2
