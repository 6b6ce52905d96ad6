"""What an engine says a request cost: `usage` in a JSON answer or in its server-sent events.

Chunks may be cut anywhere. What cannot be read is counted by the owner, never an error: the bytes
go to the client as they are.
"""

from __future__ import annotations

import msgspec

MAX_JSON_BYTES = 8 * 1024 * 1024
"""A JSON answer larger than this is not read for its usage."""

MAX_EVENT_BYTES = 1024 * 1024
"""Nor is one server-sent event larger than this."""


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
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_decoder = msgspec.json.Decoder(_Answer)


class UsageReader:
    """Takes response chunks in order; `usage` holds the last one seen.

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
            if line.startswith(b"data:") and b'"usage"' in line:
                self._read(line[5:])

    def _skip(self) -> None:
        self._pending, self._skipping, self.unreadable = bytearray(), True, True

    def _read(self, text: bytes) -> None:
        try:
            read = _decoder.decode(text).usage
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.unreadable = True
            return
        if read is None:
            return
        counts = (read.prompt_tokens, read.completion_tokens or 0)
        details = read.prompt_tokens_details
        cached = details.cached_tokens if details else None
        if min(*counts, cached or 0) < 0:
            self.unreadable = True
            return
        self.usage = Usage(*counts, cached)
