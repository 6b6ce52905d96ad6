"""What an engine says a request cost: `usage` in a JSON answer or in its server-sent events.

    OpenAI           usage.prompt_tokens, completion_tokens, prompt_tokens_details.cached_tokens
    Responses API    the same as input_tokens and output_tokens; in events below `response`
    Anthropic        input_tokens, cache_read_input_tokens and cache_creation_input_tokens, which
                     add up, below `message` in the first event; output_tokens in the last ones
    SGLang           meta_info.prompt_tokens, completion_tokens, cached_tokens

Chunks may be cut anywhere. What cannot be read is counted by the owner, never an error: the bytes
go to the client as they are.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

MAX_JSON_BYTES = 8 * 1024 * 1024
"""A JSON answer larger than this is not read for its usage."""

MAX_EVENT_BYTES = 1024 * 1024
"""Nor is one server-sent event larger than this."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
"""No request costs more tokens than this."""


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request, as the engine reports them.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Tokens generated.
        cached_tokens: Prompt tokens taken from the prefix cache; None where the engine does not
            say.
    """

    prompt_tokens: int
    completion_tokens: int = 0
    cached_tokens: int | None = None


class _Details(msgspec.Struct):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _Details | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cached_tokens: Count | None = None

    @property
    def prompt(self) -> int | None:
        if self.prompt_tokens is not None:
            return self.prompt_tokens
        if self.input_tokens is None:
            return None
        kept = (self.cache_read_input_tokens or 0) + (self.cache_creation_input_tokens or 0)
        return self.input_tokens + kept

    @property
    def completion(self) -> int | None:
        return self.completion_tokens if self.output_tokens is None else self.output_tokens

    @property
    def cached(self) -> int | None:
        details = self.prompt_tokens_details or self.input_tokens_details
        if details is not None:
            return details.cached_tokens
        if self.cached_tokens is not None:
            return self.cached_tokens
        return self.cache_read_input_tokens


class _Inner(msgspec.Struct):
    usage: _Usage | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None
    meta_info: _Usage | None = None
    response: _Inner | None = None
    message: _Inner | None = None

    @property
    def told(self) -> _Usage | None:
        inner = self.response or self.message
        return self.usage or self.meta_info or (inner.usage if inner is not None else None)


_decoder = msgspec.json.Decoder(_Answer)


class UsageReader:
    """Takes response chunks in order; `usage` holds what was told so far, the last word first.

    Attributes:
        usage: None until, or unless, the engine says.
        unreadable: Something was there that could not be read.
    """

    def __init__(self, content_type: str) -> None:
        self._events = "text/event-stream" in content_type.lower()
        self._pending = bytearray()
        self._skipping = False
        self.usage: Usage | None = None
        self.unreadable = False

    def feed(self, chunk: bytes, *, end: bool) -> None:
        """Take the next chunk."""
        if self._events:
            self._feed_events(chunk, end=end)
        else:
            self._feed_json(chunk, end=end)

    def _feed_json(self, chunk: bytes, *, end: bool) -> None:
        if not self._skipping:
            self._pending += chunk
            if len(self._pending) > MAX_JSON_BYTES:
                self._skip()
        if end and self._pending:
            self._read(bytes(self._pending))
            self._pending = bytearray()

    def _feed_events(self, chunk: bytes, *, end: bool) -> None:
        lines = (bytes(self._pending) + chunk).split(b"\n")
        if self._skipping and len(lines) > 1:
            lines[0], self._skipping = b"", False
        self._pending = bytearray(b"" if self._skipping else lines.pop())
        if len(self._pending) > MAX_EVENT_BYTES:
            self._skip()
        if end:
            lines.append(bytes(self._pending))
        for line in lines:
            # Most events carry no usage: look before parsing.
            if line.startswith(b"data:") and (b'"usage"' in line or b'"meta_info"' in line):
                self._read(line[5:])

    def _skip(self) -> None:
        self._pending, self._skipping, self.unreadable = bytearray(), True, True

    def _read(self, text: bytes) -> None:
        try:
            told = _decoder.decode(text).told
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.unreadable = True
            return
        if told is None:
            return
        before = self.usage
        prompt, completion, cached = told.prompt, told.completion, told.cached
        if before is not None:
            prompt = prompt or before.prompt_tokens
            completion = completion or before.completion_tokens
            cached = before.cached_tokens if cached is None else cached
        if prompt is not None:
            self.usage = Usage(prompt, completion or 0, cached)
