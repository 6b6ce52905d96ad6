"""Puts into an answer's usage what the prefill engine found in its cache.

The decode engine was handed all of the prompt's cache, so what it calls cached says nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

_WORDS = (b"cached_tokens", b"cache_read_input_tokens")
"""One of them stands in every text that reports cached tokens."""

_DATA = b"data:"


def cached_tokens(answer: object) -> int | None:
    """What a prefill engine's answer says it found in its cache; None where it does not say."""
    if not isinstance(answer, dict):
        return None
    usage = answer.get("usage")
    if not isinstance(usage, dict):
        return None
    for details in ("prompt_tokens_details", "input_tokens_details"):
        found = usage.get(details)
        if isinstance(found, dict) and isinstance(found.get("cached_tokens"), int):
            return int(found["cached_tokens"])
    read = usage.get("cache_read_input_tokens")
    return read if isinstance(read, int) else None


def corrected(body: bytes, cached: int) -> bytes:
    """A whole answer with `cached` in the place of its cached tokens; others stay what they are."""
    if not any(word in body for word in _WORDS):
        return body
    try:
        answer = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body
    return msgspec.json.encode(answer) if _correct(answer, cached) else body


class StreamCorrector:
    """The same for a stream of events, line by line; lines that report nothing keep their bytes."""

    def __init__(self, cached: int) -> None:
        self._cached = cached
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be sent on now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(self._line(line) + b"\n" for line in lines)

    def end(self) -> bytes:
        """What was held back."""
        return self._line(self._rest)

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(_DATA) or not any(word in line for word in _WORDS):
            return line
        event = line[len(_DATA) :].strip()
        better = corrected(event, self._cached)
        return line if better == event else line.replace(event, better)


def _correct(answer: Any, cached: int) -> bool:
    """Whether there was something to correct, at the top or in the event's message."""
    if not isinstance(answer, dict):
        return False
    places = (answer, answer.get("response"), answer.get("message"))
    usages = [
        p["usage"] for p in places if isinstance(p, dict) and isinstance(p.get("usage"), dict)
    ]
    done = [_correct_usage(usage, cached) for usage in usages]
    return any(done)


def _correct_usage(usage: dict[str, Any], cached: int) -> bool:
    done = False
    for name in ("prompt_tokens_details", "input_tokens_details"):
        details = usage.get(name)
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            details["cached_tokens"], done = cached, True
    if isinstance(usage.get("cache_read_input_tokens"), int):
        usage["cache_read_input_tokens"], done = cached, True
    return done
