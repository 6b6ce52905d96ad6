"""Estimated ids: which bytes become which tokens, and what media weigh."""

from __future__ import annotations

import base64
import io
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from xxhash import xxh64_intdigest

from router.producers.estimate import (
    DURATION,
    FPS,
    MAX_MEDIA_TOKENS,
    RESOLUTION,
    estimate,
    video_tokens,
)
from router.producers.estimate_parameters import EstimateParameters, VideoParameters
from router.producers.facts import MediaItem, Tokens
from router.request.types import Kind
from tests.support import make

TEXT = {"type": "text", "text": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": "http://a/b.png"}}
VIDEO = {"type": "video_url", "video_url": {"url": "v"}}


def of(body: object, parameters: object = None, **headers: str) -> Tokens:
    kind = Kind.CHAT if isinstance(body, dict) and "messages" in body else Kind.COMPLETION
    request = make.request(kind=kind, body=msgspec.json.encode(body), headers=headers)
    return estimate(request, msgspec.convert(parameters or {}, EstimateParameters))


def said(*parts: Any, **body: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], **body}


def ids_of(content: str) -> bytes:
    return (xxh64_intdigest(content.encode()) & 0xFFFFFFFF).to_bytes(4, "little")


def test_four_bytes_of_a_prompt_are_one_token_and_zeros_fill_the_last() -> None:
    assert of({"prompt": "abcdefgh"}) == Tokens(b"abcdefgh")
    assert of({"prompt": "abcde"}) == Tokens(b"abcde\0\0\0")
    assert of({"prompt": ["ß", "other"]}) == Tokens("ß".encode() + b"\0\0")
    assert of({"prompt": []}) == Tokens(b"")


def test_a_chat_is_its_tools_roles_and_texts_in_one() -> None:
    body = {
        "tools": [{"z": 1, "a": "x y"}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": ["a ", TEXT, {"type": "odd"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "left out"}]},
        ],
    }
    expected = b'[{"z":1,"a":"x y"}]systemBe brief.usera hiassistant'
    assert of(body).ids == expected + bytes(-len(expected) % 4)
    spaced = b'{"tools": [ {"z": 1,\n "a": "x y"} ], "messages": [{"role": "u"}]}'
    request = make.request(kind=Kind.CHAT, body=spaced)
    assert estimate(request, EstimateParameters()).ids.startswith(b'[{"z":1,"a":"x y"}]u')
    assert of({"tools": [], "messages": [{"role": "user"}]}).ids == b"user"
    assert of({"tools": None, "messages": [{"role": "user"}]}).ids == b"user"


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text("ab", min_size=1))
def test_prompts_that_begin_alike_have_the_same_first_ids(shared: str, more: str) -> None:
    whole = len(shared.encode()) // 4 * 4
    first, second = of({"prompt": shared or "x"}), of({"prompt": shared + more})
    assert first.ids[:whole] == second.ids[:whole]


def test_media_begin_on_a_whole_token_and_are_named_by_their_content() -> None:
    told = of(said(TEXT, IMAGE, TEXT, IMAGE))
    url = "http://a/b.png"
    image = ids_of(url) * (640 * 360 // 1024)
    assert told.ids == b"userhi\0\0" + image + b"hi\0\0" + image
    name = f"{xxh64_intdigest(url.encode()):x}"
    assert told.media == [MediaItem(name, at, 225, "image") for at in (2, 228)]


def test_an_image_in_the_request_weighs_its_own_pixels() -> None:
    file = io.BytesIO()
    Image.new("RGB", (64, 48)).save(file, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    told = of(said({"type": "image_url", "image_url": url}))
    assert [item.length for item in told.media] == [3]


@pytest.mark.parametrize(
    ("image", "tokens"),
    [
        ({"mode": "static", "static": {"staticToken": 7}}, 7),
        ({"defaultResolution": {"width": 64, "height": 64}}, 4),
        ({"dynamic": {"factor": 640}}, 360),
        ({"defaultResolution": {"width": 1, "height": 1}}, 1),
    ],
    ids=str,
)
def test_images_weigh_what_the_parameters_say(image: object, tokens: int) -> None:
    told = of(said(IMAGE), {"image": image})
    assert [item.length for item in told.media] == [tokens]


@pytest.mark.parametrize(
    ("video", "headers", "tokens"),
    [
        ({}, {}, 20 * 225),
        ({}, {DURATION: "2.5", RESOLUTION: "64x32"}, 5 * 2),
        ({}, {DURATION: "nan", RESOLUTION: "64x", FPS: "-1"}, 20 * 225),
        ({"defaultDuration": 3, "defaultResolution": {"width": 32, "height": 32}}, {}, 6),
        ({"frames": {"sampled": {"sampleFPS": 4, "temporalPatchSize": 2}}}, {}, 20 * 225),
        ({"frames": {"minFrames": 30}}, {}, 30 * 225),
        ({"frames": {"maxFrames": 3}}, {}, 3 * 225),
        ({"frames": {"mode": "strided"}}, {}, 240 * 225),
        ({"frames": {"mode": "strided", "strided": {"frameStride": 10}}}, {FPS: "30"}, 30 * 225),
        ({"frames": {"mode": "strided", "strided": {"defaultSourceFPS": 1}}}, {}, 10 * 225),
        ({"tokensPerFrame": {"mode": "static", "static": {"numTokensPerFrame": 3}}}, {}, 60),
        ({"tokensPerFrame": {"dynamic": {"factor": 23040}}}, {}, 200),
        ({"maxVideoTokens": 100}, {}, 100),
        ({}, {DURATION: "0.1"}, 1),
    ],
    ids=str,
)
def test_videos_weigh_frames_times_tokens(
    video: object, headers: dict[str, str], tokens: int
) -> None:
    assert video_tokens(msgspec.convert(video, VideoParameters), headers) == tokens
    told = of(said(VIDEO), {"video": video}, **headers)
    assert [item.length for item in told.media] == [tokens]


def test_sounds_weigh_a_quarter_of_their_length() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}
    told = of(said(part, {"type": "audio_url", "audio_url": {"url": "abcd"}}))
    assert told.ids == b"user" + ids_of("QUJDwav") * 2 + ids_of("abcd")
    assert [item.length for item in told.media] == [2, 1]


def test_what_a_client_says_of_sizes_takes_no_memory_without_end() -> None:
    told = of(said(VIDEO, VIDEO, IMAGE, TEXT), **{DURATION: "1e9", RESOLUTION: "1e9x1e9"})
    assert [item.length for item in told.media] == [MAX_MEDIA_TOKENS]
    assert told.ids.endswith(b"hi\0\0")


@pytest.mark.parametrize("part", [{"type": "image_url"}, {"type": "image_url", "image_url": 3}])
def test_a_part_without_content_is_like_any_other_of_its_kind(part: dict[str, Any]) -> None:
    assert [item.length for item in of(said(part)).media] == [225]
