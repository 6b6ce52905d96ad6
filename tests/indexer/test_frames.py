"""Frames of live messages and replays, and the queue in which messages wait."""

from __future__ import annotations

import pytest

from indexer import frames
from indexer.events import Reason
from indexer.frames import End, Message, Queue

SEQ = (7).to_bytes(8, "big")


def message(seq: int, size: int = 1) -> Message:
    return Message(seq, bytes(size))


@pytest.mark.parametrize(
    "parts",
    [[b"", b"topic", SEQ, b"x"], [b"topic", SEQ, b"x"]],
    ids=["with delimiter", "without"],
)
def test_an_answer_with_a_topic_is_read_from_its_end(parts: list[bytes]) -> None:
    assert frames.answer(parts) == Message(7, b"x", b"topic")


@pytest.mark.parametrize("parts", [[b"", SEQ, b"x"], [SEQ, b"x"]])
def test_an_answer_of_the_older_form_has_no_topic(parts: list[bytes]) -> None:
    assert frames.answer(parts) == Message(7, b"x", None)


def test_an_empty_topic_is_one() -> None:
    assert frames.answer([b"", b"", SEQ, b"x"]) == Message(7, b"x", b"")


@pytest.mark.parametrize(
    "parts",
    [[b"", b"", b"\xff" * 8, b""], [b"", b"\xff" * 8, b""], [b"", b"", SEQ, b""]],
    ids=["newer", "older", "any number"],
)
def test_an_empty_payload_ends_an_answer(parts: list[bytes]) -> None:
    assert frames.answer(parts) == End()


def test_what_is_no_answer_is_named() -> None:
    huge = bytes(frames.MAX_PAYLOAD_BYTES + 1)
    assert frames.answer([]) is Reason.BAD_FRAMES
    assert frames.answer([b"", b"x"]) is Reason.BAD_FRAMES
    assert frames.answer([b"", b"t", b"1234567", b"x"]) is Reason.BAD_SEQUENCE
    assert frames.answer([b"", b"t", SEQ, huge]) is Reason.TOO_LARGE


def test_a_request_is_an_empty_frame_and_a_number() -> None:
    assert frames.request(258) == [b"", b"\0\0\0\0\0\0\1\2"]


def test_a_topic_names_address_and_model_in_one_form_only() -> None:
    assert frames.address_and_model(b"kv@10.0.0.1:8000@org/m") == ("10.0.0.1:8000", "org/m")
    assert frames.address_and_model(b"kv@10.0.0.1:8000") is None
    assert frames.address_and_model(b"kv@a@b@c") is None
    assert frames.model_of(b"kv@a@") is None


def test_a_queue_keeps_order_and_pushes_the_oldest_out() -> None:
    queue = Queue(max_messages=2, max_bytes=100)
    assert [queue.push(message(seq)) for seq in (1, 2, 3)] == [0, 0, 1]
    assert queue.pop().seq == 2
    queue.push_back(message(2))
    assert (queue.first_from(0), queue.first_from(3), queue.first_from(4)) == (2, 3, None)
    assert (queue.last_seq, len(queue), queue.clear(), queue.last_seq) == (3, 2, 2, None)


def test_a_queue_counts_bytes_too() -> None:
    queue = Queue(max_messages=9, max_bytes=10)
    assert [queue.push(message(seq, 6)) for seq in (1, 2)] == [0, 1]
    assert queue.push(message(3, 20)) == 2
    assert len(queue) == 0
