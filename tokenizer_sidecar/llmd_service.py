"""llm-d's tokenizer contract, answered from the same models on the same socket. IO.

What cannot be done is said in the answer, with `success` false; no call fails for it.
"""

from __future__ import annotations

import time
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
from tokenizer_sidecar.service import fault
from tokenizer_sidecar.stats import Stats

Response = TypeVar(
    "Response",
    TokenizeResponse,
    InitializeTokenizerResponse,
    RenderCompletionResponse,
    RenderChatCompletionResponse,
    ChatTemplateResponse,
)


class NotServed(Exception):
    """The model cannot be used now; the message says why.

    Attributes:
        outcome: Name under which that is counted.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class LlmdService:
    """What the contract's TokenizationService does."""

    def __init__(self, models: Models, lane: Lane, stats: Stats) -> None:
        self._models = models
        self._stats = stats
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

        return await self._run(work, TokenizeResponse, request.model_name)

    async def InitializeTokenizer(  # noqa: N802
        self, request: InitializeTokenizerRequest, context: object
    ) -> InitializeTokenizerResponse:
        """Whether the model is ready. All models are loaded without being asked for."""

        def work() -> InitializeTokenizerResponse:
            self._renderer(request.model_name)
            return InitializeTokenizerResponse(success=True)

        return await self._run(work, InitializeTokenizerResponse, request.model_name)

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

        return await self._run(work, RenderCompletionResponse, request.model_name)

    async def RenderChatCompletion(  # noqa: N802
        self, request: RenderChatCompletionRequest, context: object
    ) -> RenderChatCompletionResponse:
        """Ids of a chat."""

        def work() -> RenderChatCompletionResponse:
            ids = self._renderer(request.model_name).packed_chat(llmd_bodies.chat(request))
            return RenderChatCompletionResponse(
                request_id=_request_id("chatcmpl"), token_ids=unpack(ids), success=True
            )

        return await self._run(work, RenderChatCompletionResponse, request.model_name)

    async def RenderChatTemplate(  # noqa: N802
        self, request: ChatTemplateRequest, context: object
    ) -> ChatTemplateResponse:
        """The text of a chat."""

        def work() -> ChatTemplateResponse:
            text = self._renderer(request.model_name).prompt(llmd_bodies.chat_template(request))
            return ChatTemplateResponse(rendered_prompt=text, success=True)

        return await self._run(work, ChatTemplateResponse, request.model_name)

    def _renderer(self, model: str) -> AnyRenderer:
        entry = self._models.entries.get(model)
        if entry is None:
            raise NotServed("UNKNOWN_MODEL", f"no tokenizer for {model!r}")
        if entry.renderer is None:
            raise NotServed("NOT_READY", entry.message)
        return entry.renderer

    async def _run(
        self, work: Callable[[], Response], response: type[Response], model: str
    ) -> Response:
        started = time.perf_counter()
        outcome, message, answer = "OK", "", None
        try:
            answer = await self._lane.run(work)
        except NotServed as error:
            outcome, message = error.outcome, str(error)
        except RenderError as error:
            outcome, message = "REFUSED", str(error)
        except Unsupported as error:
            outcome, message = "UNSUPPORTED", str(error)
        except Busy:
            outcome, message = "BUSY", "too many requests are waiting"
        except Exception as error:  # the edge: what goes wrong with one call is said in its answer
            outcome, message = "FAILED", fault(error, model)
        tokens = _tokens(answer)
        self._stats.answered(outcome, tokens, time.perf_counter() - started)
        if answer is not None:
            return answer
        # Text from a template may hold half a surrogate pair, which protobuf rejects.
        return response(success=False, error_message=message.encode(errors="replace").decode())


def _tokens(answer: object) -> int:
    match answer:
        case TokenizeResponse():
            return len(answer.input_ids)
        case RenderCompletionResponse() | RenderChatCompletionResponse():
            return len(answer.token_ids)
        case _:
            return 0


def _request_id(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"
