"""Many clients with different wishes at once: each gets the answer it would get alone."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from tests.tokenizer_sidecar.disk import TINY, chat, write_model
from tests.tokenizer_sidecar.test_server import becomes_ready, config, sidecar
from tests.tokenizer_sidecar.wire import connected, reply, request
from tokenizer_sidecar.answer import answer
from tokenizer_sidecar.pb.tokenization_pb2 import RenderCompletionRequest
from tokenizer_sidecar.pb.tokenization_pb2_grpc import TokenizationServiceStub
from tokenizer_sidecar.pb.tokenizer_pb2 import OK, TokenizeReply, TokenizeRequest
from tokenizer_sidecar.render import Renderer

if TYPE_CHECKING:
    from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerAsyncStub

CLIENTS = 64
CALLS = 4000
AT_ONCE = 4
"""Calls of one client that wait for their answers at the same time."""

MAX_WORDS = 12_000
"""About 20,000 tokens."""

WORDS = ("the", "fox", "jumps", "Größe", "你好", "12345", "\n\n", "👍🏽", "<|im_start|>", "don't")
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"z": {"type": "string"}}}}
CALL = {"type": "function", "function": {"name": "f", "arguments": '{"z": "é", "a": [1]}'}}
ASKED = {"role": "assistant", "content": "Well, ", "tool_calls": [CALL]}


def text(rng: random.Random) -> str:
    """Short ones are as likely as long ones; many begin alike."""
    length = int(MAX_WORDS ** rng.random())
    start = rng.choice(("", "one shared beginning of many prompts, " * min(length, 500)))
    return start + " ".join(rng.choices(WORDS, k=length))


def wish(rng: random.Random) -> dict[str, Any]:
    """A body."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["truncate_prompt_tokens"] = rng.choice((0, 1, 7, 500, -1))
        options["truncation_side"] = rng.choice(("left", "right"))
    if rng.random() < 0.3:
        options["add_special_tokens"] = rng.random() < 0.5
    if rng.random() < 0.4:
        prompts = (text(rng), [text(rng), "other"], [5, 6, 7], "")
        return {"prompt": rng.choices(prompts, (10, 2, 1, 1))[0], **options}
    if rng.random() < 0.3:
        options["tools"] = [TOOL]
    if rng.random() < 0.3:
        options["add_generation_prompt"] = rng.random() < 0.5
    if rng.random() < 0.3:
        options["chat_template_kwargs"] = {"enable_thinking": rng.random() < 0.5}
    if rng.random() < 0.1:
        options |= {"continue_final_message": True, "add_generation_prompt": False}
    turns = rng.choice(([text(rng)], [text(rng), ASKED, "and?"], ["a", ASKED], ["\ud800"]))
    return chat(*turns, **options)


def wishes() -> list[TokenizeRequest]:
    rng = random.Random(7)
    return [
        request(i, body, raw=json.dumps(body).encode(), model=rng.choice(("tiny", "bytes")))
        for i, body in enumerate(wish(rng) for _ in range(CALLS))
    ]


async def client(stub: TokenizerAsyncStub, asked: Sequence[TokenizeRequest]) -> list[TokenizeReply]:
    """One stream, on which a new call is made as soon as one is answered."""
    stream = stub.Tokenize()
    replies: list[TokenizeReply] = []
    for number, each in enumerate(asked):
        await stream.write(each)
        if number >= AT_ONCE - 1:
            replies.append(await reply(stream))
    while len(replies) < len(asked):
        replies.append(await reply(stream))
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    return replies


async def by_llm_ds_contract(path: Path, prompts: Sequence[str]) -> list[list[int]]:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        stub = TokenizationServiceStub(channel)
        return [
            list((await stub.RenderCompletion(each)).token_ids)
            for each in (
                RenderCompletionRequest(model_name="bytes", prompt=prompt) for prompt in prompts
            )
        ]


async def test_each_of_many_clients_gets_the_answer_it_would_get_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    models = {"tiny": TINY, "bytes": write_model(tmp_path / "bytes")}
    asked = wishes()
    rng = random.Random(8)
    prompts = [text(rng)[:2000] for _ in range(100)]
    # A cache that forgets all the time; two threads, so that calls wait for each other.
    running = config(path, models=models, cache_bytes=1 << 20, workers=2, inline_bytes=500)
    async with sidecar(running), AsyncExitStack() as stack:
        await becomes_ready(path)
        stubs = [await stack.enter_async_context(connected(path)) for _ in range(8)]
        async with asyncio.TaskGroup() as group:
            clients = [
                group.create_task(client(stubs[i % 8], asked[i::CLIENTS])) for i in range(CLIENTS)
            ]
            others = [group.create_task(by_llm_ds_contract(path, prompts)) for _ in range(4)]
    replies = {each.id: each for task in clients for each in task.result()}
    alone = {name: Renderer.load(directory) for name, directory in models.items()}
    for each in asked:
        assert replies[each.id] == answer(alone[each.model], each.id, each.kind, each.body)
    assert Counter(each.outcome for each in replies.values())[OK] > CALLS * 0.8
    expected = [alone["bytes"].completion({"prompt": prompt})[0] for prompt in prompts]
    assert all(task.result() == expected for task in others)
