"""Hundreds of requests that clients send, some of which nobody should: for soaks and fuzzing."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

JSON = {"content-type": "application/json"}
WORDS = ("engine", "warm", "block", "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n", "\N{SNOWMAN}")


class Sent(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        good: An engine that speaks OpenAI's API answers it with 200.
    """

    path: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    good: bool = False


def corpus(seed: int, count: int) -> list[Sent]:
    """The same for the same arguments."""
    rng = random.Random(seed)
    makers = (_chat, _chat, _completion, _completion, _ids, _packed, _other_api, _broken, _odd)
    return [next(makers[i % len(makers)](rng)) for i in range(count)]


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 200)))


def _encoded(**body: Any) -> bytes:
    return msgspec.json.encode({"model": "tiny", **body})


def _options(rng: random.Random) -> Mapping[str, Any]:
    stream = rng.random() < 0.7
    asked = {"stream_options": {"include_usage": True}} if stream and rng.random() < 0.5 else {}
    return {"max_tokens": rng.randint(1, 24), "stream": stream, **asked}


def _chat(rng: random.Random) -> Iterator[Sent]:
    roles = ("user", "assistant")
    turns = [{"role": roles[i % 2], "content": _text(rng)} for i in range(rng.randint(1, 4))]
    body = _encoded(messages=turns, **_options(rng))
    yield Sent("/v1/chat/completions", JSON, body, good=True)


def _completion(rng: random.Random) -> Iterator[Sent]:
    body = _encoded(prompt=_text(rng), **_options(rng))
    yield Sent("/v1/completions?x=1", JSON, body, good=True)


def _ids(rng: random.Random) -> Iterator[Sent]:
    ids = [rng.randrange(1000) for _ in range(rng.randint(1, 300))]
    yield Sent("/v1/completions", JSON, _encoded(prompt=ids, **_options(rng)), good=True)


def _packed(rng: random.Random) -> Iterator[Sent]:
    coding, pack = rng.choice((("gzip", gzip.compress), ("deflate", zlib.compress)))
    body = pack(_encoded(prompt=_text(rng)))
    yield Sent("/v1/completions", {**JSON, "content-encoding": coding}, body)


def _other_api(rng: random.Random) -> Iterator[Sent]:
    text = _text(rng)
    path, body = rng.choice(
        (
            ("/v1/responses", {"input": text}),
            ("/v1/messages", {"messages": [{"role": "user", "content": text}], "max_tokens": 9}),
            ("/v1/embeddings", {"input": [text]}),
            ("/generate", {"text": text}),
            ("/inference/v1/generate", {"token_ids": [1, 2, 3]}),
            ("/v1/invented", {"x": text}),
        )
    )
    yield Sent(path, JSON, _encoded(**body))


def _broken(rng: random.Random) -> Iterator[Sent]:
    good = next(_chat(rng)).body
    body = rng.choice(
        (
            b"",
            b"{",
            good[: rng.randrange(len(good))],
            rng.randbytes(rng.randint(1, 2000)),
            b'{"prompt": "\\ud800"}',
            b'{"prompt": "\xff"}',
            b'{"prompt": 3, "messages": "x"}',
            b'{"prompt": "x", "kv_transfer_params": {"do_remote_prefill": true}}',
            b'{"prompt": "x", "y": ' + b"[" * 5000 + b"]" * 5000 + b"}",
            b'{"messages": [], "prompt": null, "input": {}}',
        )
    )
    paths = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
    coding = {"content-encoding": "gzip"} if rng.random() < 0.2 else {}
    yield Sent(rng.choice(paths), {**JSON, **coding}, body)


def _odd(rng: random.Random) -> Iterator[Sent]:
    method = rng.choice(("GET", "DELETE", "PUT", "OPTIONS", "POST"))
    kind = rng.choice(("text/plain", "multipart/form-data; boundary=x", "application/json; x=y"))
    body = b"" if method in ("GET", "DELETE", "OPTIONS") else rng.randbytes(rng.randint(0, 20_000))
    control = rng.choice(
        ({}, {"x-gateway-destination-endpoint": "192.0.2.1:1"}, {"x-slo-ttft-ms": "\xe9"})
    )
    yield Sent("/v1/audio/transcriptions", {"content-type": kind, **control}, body, method)
