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
    [
        '"x"',
        "[1]",
        '{"prompt_tokens":"7"}',
        '{"prompt_tokens":-1}',
        '{"prompt_tokens":1e308}',
        '{"prompt_tokens":1e15}',
    ],
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


ANTHROPIC = b"""event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":32,\
"cache_creation_input_tokens":16,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"text":"the \\"usage\\" of it"}}

event: message_delta
data: {"type":"message_delta","usage":{"output_tokens":12}}

""".replace(b"\\\n", b"")

RESPONSES = b"""event: response.created
data: {"type":"response.created","response":{"usage":null}}

event: response.completed
data: {"type":"response.completed","response":{"usage":{"input_tokens":40,"output_tokens":5,\
"input_tokens_details":{"cached_tokens":16}}}}

""".replace(b"\\\n", b"")

SGLANG = b"""data: {"text":"a","meta_info":{"prompt_tokens":8,"completion_tokens":1}}

data: {"text":"ab","meta_info":{"prompt_tokens":8,"completion_tokens":2,"cached_tokens":4}}

data: [DONE]

"""


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        (ANTHROPIC, Usage(57, 12, 32)),
        (RESPONSES, Usage(40, 5, 16)),
        (SGLANG, Usage(8, 2, 4)),
    ],
    ids=["anthropic", "responses", "sglang"],
)
def test_events_of_every_api_tell_their_usage_wherever_they_are_cut(
    events: bytes, usage: Usage
) -> None:
    for cut in range(len(events)):
        reader = read("text/event-stream", events[:cut], events[cut:])
        assert (reader.usage, reader.unreadable) == (usage, False)


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"usage":{"input_tokens":3,"output_tokens":2}}', Usage(3, 2, None)),
        (
            b'{"usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":8}}',
            Usage(11, 2, 8),
        ),
        (
            b'{"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1}}}',
            Usage(3, 0, 1),
        ),
        (b'{"text":"a","meta_info":{"prompt_tokens":3,"cached_tokens":0}}', Usage(3, 0, 0)),
    ],
    ids=["responses", "anthropic", "cached", "sglang"],
)
def test_json_of_every_api_tells_its_usage(body: bytes, usage: Usage) -> None:
    assert read("application/json", body).usage == usage


def test_an_answer_nested_too_deeply_is_noticed() -> None:
    body = b'{"usage":' + b"[" * 100_000
    assert read("application/json", body).unreadable
