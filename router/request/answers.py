"""Gives an answer the client's name of the model back, however its chunks are cut.

Server-sent events go on line by line, as soon as a line is complete; a JSON answer goes on once it
is complete. What is too large to be held, or is neither, goes on as it is.
"""

from __future__ import annotations

from router.request.rewrite import is_complete, with_name

MAX_JSON_BYTES = 8 * 1024 * 1024
"""A JSON answer larger than this goes on as it is."""

MAX_LINE_BYTES = 1024 * 1024
"""So does a line of events that is larger than this."""


def renamer(content_type: str, content_encoding: str, sent: str, name: str) -> Renamer | None:
    """What makes an answer of the model `sent` one of `name`; None where none can be made."""
    if content_encoding.strip().lower() not in ("", "identity"):
        return None
    media = content_type.partition(";")[0].strip().lower()
    if media == "text/event-stream":
        return Renamer(sent, name, events=True)
    return Renamer(sent, name, events=False) if media == "application/json" else None


class Renamer:
    """Takes the chunks of an answer in order and gives back what goes on."""

    def __init__(self, sent: str, name: str, *, events: bool) -> None:
        self._sent = sent
        self._name = name
        self._events = events
        self._pending = b""
        self._passing = False

    def feed(self, chunk: bytes, *, end: bool) -> bytes:
        """What goes on after this chunk; all that is left where it is the last one."""
        text = self._pending + chunk
        if self._events:
            done, self._pending = self._feed_events(text, end=end)
        else:
            done, self._pending = self._feed_json(text, end=end)
        return done

    def _feed_json(self, text: bytes, *, end: bool) -> tuple[bytes, bytes]:
        if self._passing or len(text) > MAX_JSON_BYTES:
            self._passing = True
            return text, b""
        # Not only at the end: trailers can follow, and then no chunk says that it is the last.
        if end or is_complete(text):
            return with_name(text, self._sent, self._name), b""
        return b"", text

    def _feed_events(self, text: bytes, *, end: bool) -> tuple[bytes, bytes]:
        stop = len(text) if end else text.rfind(b"\n") + 1
        lines, rest = text[:stop].splitlines(keepends=True), text[stop:]
        done = []
        for line in lines:
            done.append(line if self._passing else self._renamed(line))
            self._passing = self._passing and not line.endswith(b"\n")
        if self._passing or len(rest) > MAX_LINE_BYTES:
            self._passing = True
            done.append(rest)
            rest = b""
        return b"".join(done), rest

    def _renamed(self, line: bytes) -> bytes:
        if not line.startswith(b"data:") or b'"model"' not in line:
            return line
        return line[:5] + with_name(line[5:], self._sent, self._name)
