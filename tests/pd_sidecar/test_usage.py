from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_sidecar.usage import StreamCorrector, cached_tokens, corrected

SHAPES = [
    {"usage": {"prompt_tokens_details": {"cached_tokens": 7, "x": None}}},
    {"usage": {"input_tokens_details": {"cached_tokens": 7}}},
    {"usage": {"cache_read_input_tokens": 7}},
]


@pytest.mark.parametrize("answer", SHAPES)
def test_cached_tokens_are_found_and_replaced_in_each_apis_usage(answer: Any) -> None:
    assert cached_tokens(answer) == 7
    better = msgspec.json.decode(corrected(msgspec.json.encode(answer), 3))
    assert cached_tokens(better) == 3
    assert corrected(msgspec.json.encode(better), 7) == msgspec.json.encode(answer)


@pytest.mark.parametrize("place", ["response", "message"])
def test_usage_inside_an_event_is_replaced_too(place: str) -> None:
    event = msgspec.json.encode({"type": "t", place: SHAPES[0]})
    assert msgspec.json.decode(corrected(event, 3))[place] == {
        "usage": {"prompt_tokens_details": {"cached_tokens": 3, "x": None}}
    }


@pytest.mark.parametrize(
    "body",
    [
        b'{"usage": {"prompt_tokens_details": null}}',
        b'{ "text": "cached_tokens" }',
        b'{"usage": {"prompt_tokens_details": {"cached_tokens": null}}}',
        b"cached_tokens",
        b'["cached_tokens"]',
        b"",
    ],
)
def test_what_reports_nothing_keeps_its_bytes(body: bytes) -> None:
    assert corrected(body, 3) == body


@pytest.mark.parametrize("answer", [None, [], {}, {"usage": None}, {"usage": {}}])
def test_an_answer_that_says_nothing_has_no_cached_tokens(answer: object) -> None:
    assert cached_tokens(answer) is None


EVENT = b'data: {"usage":{"cache_read_input_tokens":7}}'
STREAM = (
    b'event: x\ndata: {"a": 1}\n\n' + EVENT + b"\n\n" + EVENT + b"\r\n: keep\n\ndata: [DONE]\n\n"
)


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=8), ended=st.booleans())
def test_a_stream_is_corrected_wherever_it_is_cut(cuts: list[int], ended: bool) -> None:
    text = STREAM if ended else STREAM[:-2]
    corrector, out, start = StreamCorrector(3), b"", 0
    for cut in (*sorted(cuts), len(text)):
        out += corrector.feed(text[start:cut])
        start = max(start, cut)
    assert out + corrector.end() == text.replace(b":7", b":3")


def test_a_line_that_is_whole_is_not_held_back() -> None:
    assert StreamCorrector(3).feed(b"data: 1\n\ndata") == b"data: 1\n\n"
