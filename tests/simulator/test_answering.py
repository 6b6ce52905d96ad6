from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from simulator.answering import Added, Answering
from simulator.clock import Timing
from simulator.config import BUNDLED_MODEL_DIR, EngineConfig
from simulator.engine import Engine
from simulator.hashing import Hasher, Identity
from simulator.language import Language
from simulator.metrics import Metrics
from simulator.openai import Ask
from simulator.prepare import Prompt
from simulator.rank import Rank
from simulator.responses import Head
from tests.simulator import make

LANGUAGE = Language.load(BUNDLED_MODEL_DIR)
INSTANT = Timing(prefill_s_per_token=0.0, decode_s_per_token=0.0)


@asynccontextmanager
async def stepping(engine: Engine) -> AsyncIterator[Rank]:
    rank = Rank(0, engine, Metrics(EngineConfig(), [engine], 0.0), None)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(rank.run())
        yield rank
        task.cancel()


def answering(rank: Rank, ask: Ask, *prompts: list[int]) -> Answering:
    ready = [Prompt(tokens, Hasher(4).chain(tokens, Identity())) for tokens in prompts]
    head = Head("completion", "cmpl-1", 0, "tiny", ask)
    return Answering(head, ready, Identity(), "session", rank, LANGUAGE)


async def collect(answer: Answering) -> list[Added]:
    async with asyncio.timeout(10), answer:
        return [added async for added in answer.steps()]


async def test_each_prompt_gets_its_choices_and_each_token_its_step() -> None:
    async with stepping(make.engine(timing=INSTANT)) as rank:
        answer = answering(rank, Ask(n=2, max_tokens=3), [1, 2], [3, 4])
        added = await collect(answer)
    assert len(added) == 12
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.finish_reason for choice in answer.choices] == ["length"] * 4
    assert "".join(one.text for one in added if one.choice.index == 2) == answer.choices[2].text


async def test_choices_tell_what_was_reused() -> None:
    async with stepping(make.engine(block_size=4, timing=INSTANT)) as rank:
        for cached in (0, 8):
            answer = answering(rank, Ask(max_tokens=1), list(range(9)))
            await collect(answer)
            assert answer.choices[0].cached_tokens == cached


async def test_an_answer_is_cut_to_the_context() -> None:
    async with stepping(make.engine(max_model_len=10, timing=INSTANT)) as rank:
        answer = answering(rank, Ask(max_tokens=500), [1] * 7)
        await collect(answer)
    assert len(answer.choices[0].token_ids) == 3


async def test_leaving_early_aborts_what_still_runs() -> None:
    engine = make.engine(timing=INSTANT)
    async with stepping(engine) as rank, asyncio.timeout(10):
        answer = answering(rank, Ask(max_tokens=100), [1, 2], [3, 4])
        async with answer:
            async for _ in answer.steps():
                break
        while engine.running:  # noqa: ASYNC110 - the engine has no events
            await asyncio.sleep(0)
    assert engine.cache.usage == 0


async def test_a_stop_string_aborts_its_choice_alone() -> None:
    engine = make.engine(timing=INSTANT, num_blocks=999)
    async with stepping(engine) as rank:
        whole = answering(rank, Ask(max_tokens=20), [1, 2], [3, 4])
        await collect(whole)
        word = whole.choices[0].text.split()[3]
        assert word not in whole.choices[1].text
        before = engine.counts.generated
        # The other choice goes on for long; the aborted one must not.
        cut = answering(rank, Ask(max_tokens=20, stop=word), [3, 4], *[[1, 2]] * 20)
        await collect(cut)
    assert [choice.stop_reason for choice in cut.choices] == [None, *[word] * 20]
    assert cut.choices[0].text == whole.choices[1].text
    assert engine.counts.generated - before < 20 + 20 * 10


async def test_answers_with_one_id_do_not_clash() -> None:
    async with stepping(make.engine(timing=INSTANT)) as rank:
        both = [answering(rank, Ask(max_tokens=3), [1, 2]) for _ in range(2)]
        steps = await asyncio.gather(*map(collect, both))
    assert [len(added) for added in steps] == [3, 3]
