"""SGLang's own API: generation from text or token ids."""

from __future__ import annotations

from typing import Any

import msgspec

from router.request.bodies import Fields, Read, decode
from router.request.ids import first_ids, how_many, is_empty, is_flood, may_flood
from router.request.types import Kind


class _Generate(Fields):
    text: str | list[str] | None = None
    input_ids: list[int | list[int]] | None = None
    extra_key: str | list[str] | None = None
    image_data: Any = None
    audio_data: Any = None
    video_data: Any = None

    @property
    def has_media(self) -> bool:
        return any((self.image_data, self.audio_data, self.video_data))


class _Outline(Fields):
    input_ids: msgspec.Raw = msgspec.Raw(b"")


_outline = msgspec.json.Decoder(_Outline)
_generate = msgspec.json.Decoder(_Generate)


def generate(body: bytes) -> Read:
    """``/generate``; another engine's body for that path goes by load. Raises BadRequest."""
    if may_flood(body) and is_flood((outline := decode(_outline, body)).input_ids):
        return Read(fields=outline)
    read = decode(_generate, body)
    given = read.input_ids if read.input_ids is not None else read.text
    if is_empty(given) or read.has_media:
        return Read(fields=read)
    salt = (
        read.extra_key
        if isinstance(read.extra_key, str | None)
        else next(iter(read.extra_key), None)
    )
    return Read(
        fields=read,
        kind=Kind.COMPLETION,
        prompt=msgspec.json.encode({"model": read.model, "prompt": given}),
        token_ids=first_ids(given, "$.input_ids"),
        prompt_known=True,
        prompts=how_many(given),
        cache_salt=read.cache_salt or salt,
        tells_usage=True,
    )
