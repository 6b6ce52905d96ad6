"""Token ids without a tokenizer: each four bytes of a prompt's text stand for one token.

Such ids say whether prompts begin alike; no engine computes them. Media begin on a whole token and
stand for as many as estimated, each named by the content's hash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from xxhash import xxh64_intdigest

from router.producers import image_size
from router.producers.estimate_parameters import (
    EstimateParameters,
    ImageParameters,
    Resolution,
    VideoParameters,
)
from router.producers.facts import MediaItem, Tokens
from router.request.types import Kind, Request

BYTES_PER_TOKEN = 4

MAX_MEDIA_TOKENS = 1024 * 1024
"""Of one prompt: sizes come from clients, and no engine holds more of a prompt."""

FPS = "x-llm-d-video-fps"
DURATION = "x-llm-d-video-duration-seconds"
RESOLUTION = "x-llm-d-video-resolution"


class _Message(msgspec.Struct):
    role: str
    content: str | list[str | dict[str, Any]] | None = None


class _Chat(msgspec.Struct):
    messages: list[_Message]
    tools: msgspec.Raw = msgspec.Raw(b"null")


class _Completion(msgspec.Struct):
    prompt: str | list[str]


_chat = msgspec.json.Decoder(_Chat)
_completion = msgspec.json.Decoder(_Completion)


def estimate(request: Request, parameters: EstimateParameters) -> Tokens:
    """The first prompt's. Raises msgspec.DecodeError for a body of another form."""
    if request.kind is Kind.CHAT:
        prompt = _Prompt(parameters, request.headers)
        prompt.chat(_chat.decode(request.body))
        return prompt.tokens()
    given = _completion.decode(request.body).prompt
    text = given if isinstance(given, str) else next(iter(given), "")
    return Tokens(_aligned(bytearray(text.encode())))


class _Prompt:
    """A chat's bytes and media, as they come."""

    def __init__(self, parameters: EstimateParameters, headers: Mapping[str, str]) -> None:
        self._image = parameters.image
        self._video_tokens = video_tokens(parameters.video, headers)
        self._bytes = bytearray()
        self._media: list[MediaItem] = []
        self._left = MAX_MEDIA_TOKENS

    def chat(self, chat: _Chat) -> None:
        if bytes(chat.tools) not in (b"null", b"[]"):
            # Without white space, which no template shows.
            self._bytes += msgspec.json.format(bytes(chat.tools), indent=-1)
        for message in chat.messages:
            self._text(message.role)
            content = message.content or ""
            for part in [content] if isinstance(content, str) else content:
                self._part(part)

    def tokens(self) -> Tokens:
        return Tokens(_aligned(self._bytes), self._media)

    def _part(self, part: str | dict[str, Any]) -> None:
        if isinstance(part, str):
            self._text(part)
            return
        match part.get("type"):
            case "text":
                self._text(part.get("text"))
            case "image_url":
                url = _url(part, "image_url")
                self._item("image", url, image_tokens(self._image, url))
            case "video_url":
                self._item("video", _url(part, "video_url"), self._video_tokens)
            case "audio_url":
                self._sound(_url(part, "audio_url"))
            case "input_audio" as field:
                self._sound(_field(part, field, "data") + _field(part, field, "format"))
            case _:
                pass  # it has no tokens that can be guessed

    def _text(self, text: Any) -> None:
        if isinstance(text, str):
            self._bytes += text.encode()

    def _sound(self, content: str) -> None:
        self._item("audio", content, math.ceil(len(content.encode()) / BYTES_PER_TOKEN))

    def _item(self, modality: str, content: str, tokens: int) -> None:
        length = min(tokens, self._left)
        if length == 0:
            return
        self._left -= length
        name = xxh64_intdigest(content.encode())
        self._bytes += _padding(self._bytes)
        offset = len(self._bytes) // BYTES_PER_TOKEN
        self._bytes += (name & 0xFFFFFFFF).to_bytes(BYTES_PER_TOKEN, "little") * length
        self._media.append(MediaItem(f"{name:x}", offset, length, modality))


def image_tokens(image: ImageParameters, url: str) -> int:
    """Tokens an image stands for; at least 1."""
    if image.mode == "static":
        return image.static.static_token
    size = image_size.of_data_url(url) or image.default_resolution
    return max(1, size.width * size.height // image.dynamic.factor)


def video_tokens(video: VideoParameters, headers: Mapping[str, str]) -> int:
    """Tokens a video stands for; at least 1. What the headers say of it comes first."""
    tokens = _frames(video, headers) * _tokens_per_frame(video, headers)
    return max(1, min(tokens, video.max_video_tokens or tokens))


def _frames(video: VideoParameters, headers: Mapping[str, str]) -> int:
    duration = _number(headers.get(DURATION)) or video.default_duration
    frames, sampled, strided = video.frames, video.frames.sampled, video.frames.strided
    if frames.mode == "strided":
        fps = _number(headers.get(FPS)) or strided.default_source_fps
        return _clamped(int(duration * fps) // strided.frame_stride, video)
    return _clamped(int(duration * sampled.sample_fps), video) // max(
        1, sampled.temporal_patch_size
    )


def _clamped(count: int, video: VideoParameters) -> int:
    frames = video.frames
    return min(max(count, frames.min_frames), frames.max_frames or max(count, frames.min_frames))


def _tokens_per_frame(video: VideoParameters, headers: Mapping[str, str]) -> int:
    per_frame = video.tokens_per_frame
    if per_frame.mode == "static":
        return per_frame.static.num_tokens_per_frame
    size = _resolution(headers.get(RESOLUTION)) or video.default_resolution
    return max(1, size.width * size.height // per_frame.dynamic.factor)


def _number(text: str | None) -> float | None:
    """A positive number up to a billion; None for anything else."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number <= 1e9 else None


def _resolution(text: str | None) -> Resolution | None:
    width, _, height = (text or "").lower().partition("x")
    pixels = _number(width), _number(height)
    if None in pixels:
        return None
    return Resolution(*(max(1, int(each)) for each in pixels if each is not None))


def _url(part: dict[str, Any], field: str) -> str:
    given = part.get(field)
    return given if isinstance(given, str) else _field(part, field, "url")


def _field(part: dict[str, Any], outer: str, inner: str) -> str:
    given = part.get(outer)
    value = given.get(inner) if isinstance(given, dict) else None
    return value if isinstance(value, str) else ""


def _aligned(data: bytearray) -> bytes:
    return bytes(data + _padding(data))


def _padding(data: bytearray) -> bytes:
    """Zeros that fill the last token."""
    return bytes(-len(data) % BYTES_PER_TOKEN)
