from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.request.usage import MAX_EVENT_BYTES, Usage, UsageReader

CAPTURES = Path(__file__).parents[2] / "captures"
RECORDED = (CAPTURES / "sse_chat_usage.txt").read_bytes().partition(b"\n\n")[2]


def read(content_type: str, *chunks: bytes) -> UsageReader:
    reader = UsageReader(content_type)
    for i, chunk in enumerate(chunks, 1):
        reader.feed(chunk, end=i == len(chunks))
    return reader


def test_a_json_answer_tells_its_usage() -> None:
    body = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,'
    body += b'"prompt_tokens_details":{"cached_tokens":4}}}'
    assert read("application/json", body[:20], body[20:]).usage == Usage(7, 3, 4)


def test_cached_tokens_are_unknown_where_the_engine_does_not_say() -> None:
    body = b'{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":null}}'
    assert read("application/json", body).usage == Usage(7, 3, None)


@given(st.lists(st.integers(1, len(RECORDED)), max_size=12))
def test_recorded_events_tell_their_usage_however_they_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(RECORDED)]
    chunks = [RECORDED[a:b] for a, b in itertools.pairwise(edges)]
    assert read("text/event-stream; charset=utf-8", *chunks).usage == Usage(14, 6, 0)


def test_a_stream_without_usage_tells_none() -> None:
    body = (CAPTURES / "sse_chat_no_usage.txt").read_bytes().partition(b"\n\n")[2]
    reader = read("text/event-stream", body)
    assert (reader.usage, reader.unreadable) == (None, False)


def test_the_last_usage_of_a_stream_counts() -> None:
    body = (CAPTURES / "sse_chat_continuous_usage.txt").read_bytes().partition(b"\n\n")[2]
    usage = read("text/event-stream", body).usage
    assert usage is not None
    assert usage.completion_tokens > 1


@pytest.mark.parametrize(
    "usage",
    ['"x"', "[1]", '{"prompt_tokens":"7"}', '{"prompt_tokens":-1}', '{"prompt_tokens":1e308}'],
)
def test_senseless_usage_is_noticed_and_not_believed(usage: str) -> None:
    reader = read("application/json", b'{"usage":' + usage.encode() + b"}")
    assert (reader.usage, reader.unreadable) == (None, True)


@pytest.mark.parametrize("body", [b"", b'{"usage":null}', b"{}"], ids=repr)
def test_an_answer_without_usage_is_no_fault(body: bytes) -> None:
    reader = read("application/json", body)
    assert (reader.usage, reader.unreadable) == (None, False)


def test_an_answer_that_is_no_json_is_noticed() -> None:
    assert read("application/json", b"upstream connect error").unreadable


def test_an_endless_event_is_skipped_and_the_next_is_read() -> None:
    reader = UsageReader("text/event-stream")
    reader.feed(b"data: " + b"x" * (MAX_EVENT_BYTES + 1), end=False)
    reader.feed(b'xx"usage"xx\ndata: {"usage":{"prompt_tokens":5}}\n\n', end=True)
    assert reader.unreadable
    assert reader.usage == Usage(5, 0, None)
