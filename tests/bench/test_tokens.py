"""The tokens benchmark in its smallest size."""

from __future__ import annotations

from bench import token_service, tokens


def test_encoding_the_cache_and_the_sidecar_are_measured() -> None:
    size = tokens.Size(
        models=("tiny",), chars=20_000, rounds=1, service=token_service.Size(requests=20)
    )
    figures = {figure.name: figure for figure in tokens.figures(size)}
    assert list(figures) == [
        "tiny, 20 KB, first time",
        "tiny, 20 KB, last 5 % new",
        "tiny, 20 KB, again",
        "tiny, cache per token",
        "tiny, 200 turns, one by one",
        "tiny, 200-token prompts",
        "200-token chat, sidecar, new",
        "200-token chat, sidecar, seen before",
        "2000-token chats, 1 worker",
        "2000-token chats, 2 workers",
    ]
    assert figures["tiny, 20 KB, again"].value > 1
    assert "tiktoken, in pieces" in figures["tiny, 20 KB, first time"].note
    assert 4 < figures["tiny, cache per token"].value < 20
