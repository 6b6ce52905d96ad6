"""llm-d's contract over the sidecar's own socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.tokenizer_sidecar.disk import TINY, captured, chat
from tests.tokenizer_sidecar.test_server import becomes_ready, config, sidecar
from tests.tokenizer_sidecar.wire import until
from tokenizer_sidecar.lanes import Lane
from tokenizer_sidecar.llmd_service import LlmdService
from tokenizer_sidecar.models import Backoff, Models
from tokenizer_sidecar.pb.tokenization_pb2 import (
    ChatMessage,
    ChatTemplateRequest,
    ContentPart,
    ConversationTurn,
    InitializeTokenizerRequest,
    RenderChatCompletionRequest,
    RenderCompletionRequest,
    TokenizeRequest,
)
from tokenizer_sidecar.pb.tokenization_pb2_grpc import TokenizationServiceStub
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.stats import Stats

if TYPE_CHECKING:
    from tokenizer_sidecar.pb.tokenization_pb2_grpc import TokenizationServiceAsyncStub

tiny = Renderer.load(TINY)
HELLO = ChatMessage(role="user", content="Hello there")


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[TokenizationServiceAsyncStub]:
    path, empty = tmp_path / "s", tmp_path / "empty"
    empty.mkdir()
    async with sidecar(config(path, models={"tiny": TINY})):
        await becomes_ready(path)
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            yield TokenizationServiceStub(channel)


async def test_a_text_is_tokenized_with_offsets(tmp_path: Path) -> None:
    async with serving(tmp_path) as stub:
        answer = await stub.Tokenize(TokenizeRequest(input="hello world", model_name="tiny"))
    assert answer.success
    assert list(answer.input_ids) == [287, 82, 348, 1205, 1392]
    assert list(answer.offset_pairs) == [0, 2, 2, 3, 3, 5, 5, 9, 9, 11]


async def test_completions_and_chats_are_rendered_as_the_engine_does(tmp_path: Path) -> None:
    chats = [
        sample
        for sample in captured("render_samples.jsonl")
        if sample["status"] == 200
        and sample["path"] == "/v1/chat/completions"
        and set(sample["body"]) <= {"model", "messages", "max_tokens", "temperature"}
        and all(
            isinstance(m.get("content"), str) and set(m) == {"role", "content"}
            for m in sample["body"]["messages"]
        )
    ]
    assert len(chats) > 3
    async with serving(tmp_path) as stub:
        for sample in chats:
            messages = [ChatMessage(**message) for message in sample["body"]["messages"]]
            request = RenderChatCompletionRequest(model_name="tiny", messages=messages)
            rendered = await stub.RenderChatCompletion(request)
            assert list(rendered.token_ids) == sample["token_ids"][0]
        completion = await stub.RenderCompletion(
            RenderCompletionRequest(model_name="tiny", prompt="hello world")
        )
    assert list(completion.token_ids) == [287, 82, 348, 1205, 1392]
    assert rendered.request_id != completion.request_id


async def test_the_older_form_gives_text(tmp_path: Path) -> None:
    request = ChatTemplateRequest(
        model_name="tiny",
        conversation_turns=[ConversationTurn(messages=[HELLO])],
        add_generation_prompt=True,
    )
    async with serving(tmp_path) as stub:
        answer = await stub.RenderChatTemplate(request)
    assert answer.rendered_prompt == tiny.prompt(chat("Hello there"))


async def test_a_model_is_ready_or_the_answer_says_why_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as stub:
        ready = await stub.InitializeTokenizer(InitializeTokenizerRequest(model_name="tiny"))
        unknown = await stub.InitializeTokenizer(InitializeTokenizerRequest(model_name="nobody"))
    assert ready.success
    assert not unknown.success
    assert "nobody" in unknown.error_message


async def test_what_cannot_be_rendered_is_an_answer_and_no_failed_call(tmp_path: Path) -> None:
    image = ChatMessage(role="user", content_parts=[ContentPart(type="image_url")])
    async with serving(tmp_path) as stub:
        media = await stub.RenderChatCompletion(
            RenderChatCompletionRequest(model_name="tiny", messages=[image])
        )
        nothing = await stub.RenderCompletion(RenderCompletionRequest(model_name="tiny"))
        template = await stub.RenderChatCompletion(
            RenderChatCompletionRequest(model_name="tiny", messages=[HELLO], chat_template="x")
        )
    assert [answer.success for answer in (media, nothing, template)] == [False] * 3
    assert "image_url" in media.error_message
    assert "prompt" in nothing.error_message
    assert "trusted" in template.error_message


async def test_every_answer_is_counted_under_what_became_of_it(tmp_path: Path) -> None:
    stats = Stats()
    models = Models({"tiny": TINY, "late": tmp_path / "nowhere"}, stats, Backoff(60.0))
    lane = Lane("test", 1, 10)
    service = LlmdService(models, lane, stats)
    image = ChatMessage(role="user", content_parts=[ContentPart(type="image_url")])
    async with asyncio.TaskGroup() as group:
        with ThreadPoolExecutor(1) as pool:
            loading = group.create_task(models.keep_loading(pool))
            await until(lambda: models.missing()["tiny"] == "" and stats.load_failures["late"] > 0)
            for model in ("tiny", "late", "nobody"):
                asked = RenderCompletionRequest(model_name=model, prompt="hello world")
                await service.RenderCompletion(asked, None)
            for messages in ([image], []):
                await service.RenderChatCompletion(
                    RenderChatCompletionRequest(model_name="tiny", messages=messages), None
                )
            loading.cancel()
    lane.close()
    assert stats.requests == {
        "OK": 1,
        "NOT_READY": 1,
        "UNKNOWN_MODEL": 1,
        "UNSUPPORTED": 1,
        "REFUSED": 1,
    }
    assert stats.tokens == 5


async def test_a_fault_is_an_answer_too_and_quotes_no_prompt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Faulty(Renderer):
        def packed_completion(self, body: Mapping[str, Any]) -> bytes:
            raise RuntimeError("a secret prompt")

    stats = Stats()
    models = Models({"tiny": TINY}, stats, Backoff(), Faulty.load)
    lane = Lane("test", 1, 10)
    with ThreadPoolExecutor(1) as pool:
        await models.keep_loading(pool)
    asked = RenderCompletionRequest(model_name="tiny", prompt="a secret prompt")
    answer = await LlmdService(models, lane, stats).RenderCompletion(asked, None)
    lane.close()
    assert (answer.success, answer.error_message) == (False, "RuntimeError in the sidecar")
    assert stats.requests == {"FAILED": 1}
    logged = "".join(capsys.readouterr())
    assert "tokenize.failed" in logged
    assert "secret" not in logged
