"""Has media of a chat encoded before anything else: one call for each item, over all encoders. IO.

ec-example   the encoders put what they compute where the next engine finds it
ec-nixl      they answer with `ec_transfer_params`, which go to the next engine
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pd_sidecar import bodies
from pd_sidecar.allow import Address
from pd_sidecar.connectors.types import Call, Engines, Whole
from pd_sidecar.errors import Unreachable

CONNECTORS = ("ec-example", "ec-nixl")

TRANSFER = "ec_transfer_params"
MESSAGES = "messages"

PARTS = frozenset({"image_url", "audio_url", "video_url", "input_audio"})
"""Types of content parts that encoders compute."""

AT_ONCE = 16
"""Calls of one request under way together."""

REFUSED_STATUS, FAILED_STATUS = 400, 500


class Encoded(msgspec.Struct, frozen=True):
    """What became of a request's media.

    Attributes:
        fields: The request for the next engine.
        refusal: An encoder's answer that finds fault with the request; the client gets it.
        done: Items that were encoded.
        failed: Items that nobody encoded: the next engine must.
    """

    fields: bodies.Fields
    refusal: Whole | None = None
    done: int = 0
    failed: int = 0


async def encode(engines: Engines, call: Call, encoders: Sequence[Address]) -> Encoded:
    """Encode each item once, round robin."""
    items = list(_items(bodies.value(call.fields, MESSAGES)))
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, item: msgspec.Raw) -> Whole | None:
        message = {"role": "user", "content": [item]}
        asked = {**bodies.one_token(call.api, call.fields), MESSAGES: bodies.raw([message])}
        async with limit:
            try:
                encoder = encoders[number % len(encoders)]
                return await engines.encode(call, encoder, bodies.write(asked))
            except Unreachable:
                return None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number, item)) for number, item in enumerate(items)]
    answers = [task.result() for task in tasks]
    good = [a for a in answers if a is not None and a.status < REFUSED_STATUS]
    refused = [a for a in answers if a is not None and REFUSED_STATUS <= a.status < FAILED_STATUS]
    fields = {**call.fields, **_handed_over(good)}
    failed = len(answers) - len(good) - len(refused)
    return Encoded(fields, next(iter(refused), None), len(good), failed)


def _items(messages: object) -> Iterator[msgspec.Raw]:
    """The media of a chat, each once, as the client wrote them."""
    seen = set()
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") in PARTS:
                item = msgspec.json.encode(part)
                if item not in seen:
                    seen.add(item)
                    yield msgspec.Raw(item)


def _handed_over(answers: Sequence[Whole]) -> dict[str, msgspec.Raw]:
    """The transfer parameters of all answers together; nothing where none has any."""
    merged: dict[str, Any] = {}
    for answer in answers:
        params = bodies.value(bodies.read(answer.body) or {}, TRANSFER)
        if isinstance(params, dict):
            merged |= params
    return {TRANSFER: bodies.raw(merged)} if merged else {}
