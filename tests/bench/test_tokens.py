"""The tokens benchmark in its smallest size."""

from __future__ import annotations

from bench import tokens


def test_encoding_rendering_and_the_sidecar_are_measured() -> None:
    size = tokens.Size(models=("tiny",), chars=20_000, rounds=1, requests=20)
    figures = tokens.figures(size)
    assert [figure.name for figure in figures] == [
        "tiny, 20 KB, first time",
        "tiny, 20 KB, again",
        "tiny, 20 KB, last 5 % new",
        "tiny, 200 turns, render",
        "tiny, 200 turns, render and find again",
        "200-token chat, sidecar, new",
        "200-token chat, sidecar, seen before",
    ]
    again = figures[1]
    assert again.value > 1
    assert "tiktoken, in pieces" in again.note
