"""One HTTP request on its way through the engine: its choices, and what each step adds. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

import msgspec

from simulator.hashing import Identity
from simulator.language import Language
from simulator.openai import Ask
from simulator.prepare import Prompt
from simulator.rank import Rank
from simulator.responses import Choice, Head
from simulator.text import Transcript
from simulator.transfer import TransferAsk
from simulator.types import EngineRequest, FinishReason, Output


class Added(msgspec.Struct, frozen=True):
    """What a step added to a choice, whose own fields are up to date already."""

    choice: Choice
    text: str
    token_ids: Sequence[int]


class Answering:
    """The engine requests behind one HTTP request; leaving the context aborts what still runs.

    There are `ask.choices` choices to each prompt, and an engine request to each choice.
    """

    def __init__(
        self,
        head: Head,
        prompts: Sequence[Prompt],
        identity: Identity,
        session_id: str | None,
        rank: Rank,
        language: Language,
        fetched: TransferAsk | None = None,
    ) -> None:
        """`fetched` says whose cache of the prompts is at hand."""
        self._head = head
        self._prompts = prompts
        self._identity = identity
        self._session_id = session_id
        self._rank = rank
        self._language = language
        self._fetched = fetched
        self._outputs: asyncio.Queue[Output] = asyncio.Queue()
        self._choices: dict[str, Choice] = {}
        self._transcripts: dict[str, Transcript] = {}

    @property
    def choices(self) -> list[Choice]:
        return list(self._choices.values())

    @property
    def request_ids(self) -> list[str]:
        """What the engine knows the choices by."""
        return list(self._choices)

    async def __aenter__(self) -> Self:
        for prompt in self._prompts:
            for _ in range(self._head.ask.choices):
                self._submit(prompt)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for request_id in self._choices:
            self._rank.abort(request_id)

    async def steps(self) -> AsyncIterator[Added]:
        """What is added, token by token, until every choice has ended."""
        unfinished = len(self._choices)
        while unfinished:
            added = self._take(await self._outputs.get())
            if added is None:
                continue
            unfinished -= added.choice.finish_reason is not None
            yield added

    def _submit(self, prompt: Prompt) -> None:
        ask, index = self._head.ask, len(self._choices)
        request_id = f"{self._head.answer_id}-{index}-{id(self):x}"
        self._choices[request_id] = Choice(index, prompt.token_ids, token_ids=[])
        self._transcripts[request_id] = Transcript(self._language.encoder.decode, ask.stops)
        self._rank.submit(self._engine_request(request_id, prompt, index), self._outputs)

    def _engine_request(self, request_id: str, prompt: Prompt, index: int) -> EngineRequest:
        ask, room = self._head.ask, self._rank.engine.token_limit - len(prompt.token_ids)
        asked = ask.limit(self._head.kind)
        ends = self._language.end_token_ids
        # Loads with a limit get exactly that many tokens; a chat without one ends by itself.
        stops_itself = asked is None and not ask.ignore_eos
        return EngineRequest(
            request_id=request_id,
            prompt_token_ids=prompt.token_ids,
            digests=prompt.digests,
            max_tokens=room if asked is None else min(asked, room),
            answer=self._language.speaker.answer(
                prompt.token_ids,
                f"{ask.seed}/{index % ask.choices}",
                ends[0] if stops_itself else None,
            ),
            stop_token_ids=frozenset((*(() if ask.ignore_eos else ends), *_stop_ids(ask))),
            identity=self._identity,
            session_id=self._session_id,
            skips_lookup=ask.prompt_logprobs is not None,
            reports_reused=ask.reports_reused,
            fetched=self._fetched is not None,
        )

    def _take(self, output: Output) -> Added | None:
        """Bring a choice up to date; None for what comes after a stop string."""
        choice = self._choices[output.request_id]
        if choice.finish_reason is not None:
            return None
        transcript = self._transcripts[output.request_id]
        last = output.finish_reason is not None
        new_ids = [] if output.token_id is None else [output.token_id]
        piece = transcript.end() if output.token_id is None else transcript.push(new_ids[0], last)
        choice.token_ids += new_ids
        choice.text += piece.text
        choice.cached_tokens = self._cached_tokens(output)
        choice.blocks = output.blocks
        if piece.stop is not None:
            choice.finish_reason, choice.stop_reason = FinishReason.STOP, piece.stop
            self._rank.abort(output.request_id)
        elif output.finish_reason is not None:
            choice.finish_reason = output.finish_reason
            choice.stop_reason = self._stop_token(output)
        return Added(choice, piece.text, new_ids)

    def _cached_tokens(self, output: Output) -> int:
        """Of a fetched prompt, what the engine that computed it had found."""
        if self._fetched is None or self._fetched.remote_prefill_cached_tokens is None:
            return output.cached_tokens
        return self._fetched.remote_prefill_cached_tokens

    def _stop_token(self, output: Output) -> int | None:
        """The token that ended an answer, unless it is the model's own end."""
        by_token = output.finish_reason is FinishReason.STOP
        return (
            output.token_id
            if by_token and output.token_id != self._language.end_token_ids[0]
            else None
        )


def _stop_ids(ask: Ask) -> Sequence[int]:
    return ask.stop_token_ids or ()
