from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.request.answers import MAX_JSON_BYTES, MAX_LINE_BYTES, Renamer, renamer

EVENTS = b"""event: x\r
data: {"model":"t","choices":[{"delta":{"content":"\\"model\\":\\"t\\""}}]}\r
\r
: a comment about "model":"t"
data: {"type":"response.created","response":{"model" : "t"}}

data: {"model":"other"}

data: [DONE]

data: {"model":"t"}"""
JSON = b' {"id":1,"model": "t","text":"}{\\" \xc3\xbc"}\n'


def renamed(text: bytes) -> bytes:
    """What a reader sees of it in the end."""
    return text.replace(b'{"model":"t"', b'{"model":"a name"').replace(
        b'"model" : "t"', b'"model" : "a name"'
    )


def made(events: bool) -> Renamer:
    return Renamer("t", "a name", events=events)


def cut(text: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(st.integers(0, 1000), max_size=8))
def test_events_are_renamed_however_they_are_cut(places: list[int]) -> None:
    chunks = cut(EVENTS, places)
    making = made(events=True)
    out = [making.feed(c, end=i == len(chunks)) for i, c in enumerate(chunks, 1)]
    assert b"".join(out) == renamed(EVENTS)


@given(st.lists(st.integers(0, 1000), max_size=4), st.booleans())
def test_a_json_answer_is_renamed_however_it_is_cut(places: list[int], empty_end: bool) -> None:
    chunks = [*cut(JSON, places), b""] if empty_end else cut(JSON, places)
    making = made(events=False)
    out = [making.feed(c, end=i == len(chunks)) for i, c in enumerate(chunks, 1)]
    assert b"".join(out) == JSON.replace(b'"t"', b'"a name"')


def test_a_complete_line_goes_on_at_once() -> None:
    making = made(events=True)
    assert making.feed(b'data: {"model":"t"}\nda', end=False) == b'data: {"model":"a name"}\n'
    assert making.feed(b"ta: x\n", end=False) == b"data: x\n"


def test_a_complete_json_answer_goes_on_before_its_end_is_told() -> None:
    making = made(events=False)
    assert making.feed(b'{"model":', end=False) == b""
    assert making.feed(b'"t"}', end=False) == b'{"model":"a name"}'
    assert making.feed(b"", end=True) == b""


def test_an_answer_that_is_too_large_goes_on_as_it_is() -> None:
    making = made(events=False)
    text = b'{"model":"t","x":"' + b"x" * MAX_JSON_BYTES
    assert making.feed(text, end=False) == text
    assert making.feed(b'"}', end=True) == b'"}'


def test_a_line_that_is_too_long_goes_on_as_it_is_and_the_next_is_renamed() -> None:
    making = made(events=True)
    line = b'data: {"model":"t","x":"' + b"x" * MAX_LINE_BYTES
    assert making.feed(line, end=False) == line
    assert making.feed(b'"}\ndata: {"model":"t"}\n', end=True) == b'"}\ndata: {"model":"a name"}\n'


@pytest.mark.parametrize(
    ("content_type", "encoding", "able"),
    [
        ("application/json; charset=utf-8", "", True),
        ("text/event-stream", "identity", True),
        ("application/json", "gzip", False),
        ("text/plain", "", False),
        ("", "", False),
    ],
)
def test_only_json_and_events_are_renamed(content_type: str, encoding: str, able: bool) -> None:
    assert (renamer(content_type, encoding, "t", "n") is not None) is able
