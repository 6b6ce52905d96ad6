"""llm-d's tokenizer contract, answered from the same models on the same socket.

What cannot be done is said in the answer, with `success` false; no call fails for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from tokenizer_sidecar import llmd_bodies
from tokenizer_sidecar.errors import RenderError, Unsupported
from tokenizer_sidecar.lanes import Busy, Lane
from tokenizer_sidecar.models import Models
from tokenizer_sidecar.pb.tokenization_pb2 import (
    ChatTemplateRequest,
    ChatTemplateResponse,
    InitializeTokenizerRequest,
    InitializeTokenizerResponse,
    RenderChatCompletionRequest,
    RenderChatCompletionResponse,
    RenderCompletionRequest,
    RenderCompletionResponse,
    TokenizeRequest,
    TokenizeResponse,
)
from tokenizer_sidecar.post_processing import unpack
from tokenizer_sidecar.renderers import AnyRenderer

Response = TypeVar("Response")


class NotServed(Exception):
    """The model cannot be used now; the message says why."""


class LlmdService:
    """What the contract's TokenizationService does."""

    def __init__(self, models: Models, lane: Lane) -> None:
        self._models = models
        self._lane = lane

    async def Tokenize(  # noqa: N802 - the names are the contract's
        self, request: TokenizeRequest, context: object
    ) -> TokenizeResponse:
        """Ids of a text, and where each begins and ends in it."""

        def work() -> TokenizeResponse:
            ids, offsets = self._renderer(request.model_name).tokenize(
                request.input, add_special_tokens=request.add_special_tokens
            )
            return TokenizeResponse(input_ids=ids, offset_pairs=offsets, success=True)

        return await self._run(work, TokenizeResponse)

    async def InitializeTokenizer(  # noqa: N802
        self, request: InitializeTokenizerRequest, context: object
    ) -> InitializeTokenizerResponse:
        """Whether the model is ready. All models are loaded without being asked for."""

        def work() -> InitializeTokenizerResponse:
            self._renderer(request.model_name)
            return InitializeTokenizerResponse(success=True)

        return await self._run(work, InitializeTokenizerResponse)

    async def RenderCompletion(  # noqa: N802
        self, request: RenderCompletionRequest, context: object
    ) -> RenderCompletionResponse:
        """Ids of a completion's prompt."""

        def work() -> RenderCompletionResponse:
            renderer = self._renderer(request.model_name)
            ids = renderer.packed_completion(llmd_bodies.completion(request))
            return RenderCompletionResponse(
                request_id=_request_id("cmpl"), token_ids=unpack(ids), success=True
            )

        return await self._run(work, RenderCompletionResponse)

    async def RenderChatCompletion(  # noqa: N802
        self, request: RenderChatCompletionRequest, context: object
    ) -> RenderChatCompletionResponse:
        """Ids of a chat."""

        def work() -> RenderChatCompletionResponse:
            ids = self._renderer(request.model_name).packed_chat(llmd_bodies.chat(request))
            return RenderChatCompletionResponse(
                request_id=_request_id("chatcmpl"), token_ids=unpack(ids), success=True
            )

        return await self._run(work, RenderChatCompletionResponse)

    async def RenderChatTemplate(  # noqa: N802
        self, request: ChatTemplateRequest, context: object
    ) -> ChatTemplateResponse:
        """The text of a chat."""

        def work() -> ChatTemplateResponse:
            text = self._renderer(request.model_name).prompt(llmd_bodies.chat_template(request))
            return ChatTemplateResponse(rendered_prompt=text, success=True)

        return await self._run(work, ChatTemplateResponse)

    def _renderer(self, model: str) -> AnyRenderer:
        entry = self._models.entries.get(model)
        if entry is None:
            raise NotServed(f"no tokenizer for {model!r}")
        if entry.renderer is None:
            raise NotServed(entry.message)
        return entry.renderer

    async def _run(
        self, work: Callable[[], Response], response: Callable[..., Response]
    ) -> Response:
        try:
            return await self._lane.run(work)
        except (NotServed, RenderError, Unsupported) as error:
            message = str(error)
        except Busy:
            message = "too many requests are waiting"
        # Text from a template may hold half a surrogate pair, which protobuf rejects.
        return response(success=False, error_message=message.encode(errors="replace").decode())


def _request_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
