"""Request bodies of a wanted length, from prose that every Python brings along."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from pydoc_data import topics

import msgspec

BYTES_PER_TOKEN = 3.74
"""Of this prose under the bundled tokenizer."""

COMPLETIONS = "/v1/completions"
CHAT = "/v1/chat/completions"


def completion(model: str, tokens: int, seed: int, **fields: object) -> bytes:
    """A completion body of about so many tokens; another seed shares no block with it."""
    return _body(model, fields, prompt=text(tokens, seed))


def chat(model: str, contents: Sequence[str], **fields: object) -> bytes:
    """A chat body with these messages, the user's first."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]
    return _body(model, fields, messages=messages)


def text(tokens: int, seed: int) -> str:
    """Paragraphs in an order of the seed's own, cut to about so many tokens."""
    order = random.Random(seed)
    wanted, length = round(tokens * BYTES_PER_TOKEN), 0
    # The number first: two orders may begin with the same paragraph.
    parts = [f"{order.randrange(10**9)}."]
    while length < wanted:
        part = order.choice(_paragraphs())
        parts.append(part)
        length += len(part) + 2
    return "\n\n".join(parts)[:wanted]


@cache
def _paragraphs() -> Sequence[str]:
    prose = "\n\n".join(topics.topics.values())
    return [part for part in prose.split("\n\n") if len(part) > 80]


def _body(model: str, fields: dict[str, object], **prompt: object) -> bytes:
    # The prompt last: the engine looks for what else it needs in the first bytes.
    return msgspec.json.encode({"model": model, **fields, **prompt})
