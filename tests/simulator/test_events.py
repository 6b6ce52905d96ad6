from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec
import pytest
import zmq
import zmq.asyncio

from simulator.events import BUFFER_STEPS, Form, Publisher, endpoint
from simulator.wire import AllBlocksCleared, BlockRemoved, encode_seq
from tests.simulator.recordings import lines

CLEARED = [AllBlocksCleared()]
TOPIC = "kv@127.0.0.1:8000@tiny"
PLAIN = Form(topic=TOPIC)
TIMEOUT_S = 10.0


def removed(number: int) -> list[BlockRemoved]:
    return [BlockRemoved(number.to_bytes(32, "big"))]


@asynccontextmanager
async def publishing(form: Form = PLAIN, rank: int = 0) -> AsyncIterator[Publisher]:
    """A publisher on free ports that answers replays."""
    publisher = Publisher("127.0.0.1", 0, 0, form, rank)
    try:
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(publisher.answer_replays())
            yield publisher
            answering.cancel()
    finally:
        publisher.close()


@contextmanager
def connected(kind: int, port: int | None, queue: int = 0) -> Iterator[zmq.asyncio.Socket]:
    """A client; `queue` bounds the messages that wait on its side, 0 is no bound."""
    assert port is not None
    with zmq.asyncio.Context() as context, context.socket(kind) as client:
        client.setsockopt(zmq.LINGER, 0)
        client.setsockopt(zmq.RCVHWM, queue)
        client.connect(f"tcp://127.0.0.1:{port}")
        yield client


@asynccontextmanager
async def subscribed(
    publisher: Publisher, topic: str = "", queue: int = 0
) -> AsyncIterator[zmq.asyncio.Socket]:
    """A SUB socket that is known to get messages: it has got those it was warmed up with."""
    with connected(zmq.SUB, publisher.port, queue) as client:
        client.subscribe(topic)
        sent = got = 0
        while got == 0:
            publisher.publish(CLEARED)
            sent += 1
            got += bool(await client.poll(20))
        first = int.from_bytes((await receive(client))[1], "big")
        for _ in range(first + 1, sent):
            await receive(client)
        yield client


async def receive(client: zmq.asyncio.Socket) -> list[bytes]:
    return await asyncio.wait_for(client.recv_multipart(), TIMEOUT_S)


async def replay(publisher: Publisher, *request: bytes) -> list[list[bytes]]:
    """Everything a DEALER gets, up to and with the end marker."""
    with connected(zmq.DEALER, publisher.replay_port) as client:
        await client.send_multipart(request)
        replies = [await receive(client)]
        while replies[-1][-2:] != [b"\xff" * 8, b""]:
            replies.append(await receive(client))
        return replies


def recorded_replies(exchange: str) -> list[list[bytes]]:
    return [
        [base64.b64decode(frame) for frame in line["frames"]]
        for line in lines("bs16_sha256_full.replay.jsonl")
        if line["exchange"] == exchange and line["dir"] == "recv"
    ]


async def test_a_message_is_topic_number_and_payload() -> None:
    async with publishing(rank=3) as publisher, subscribed(publisher) as client:
        publisher.publish(removed(1))
        publisher.publish(removed(2))
        messages = [await receive(client) for _ in range(2)]
    assert [len(frames) for frames in messages] == [3, 3]
    assert {frames[0] for frames in messages} == {TOPIC.encode()}
    first, second = (int.from_bytes(frames[1], "big") for frames in messages)
    assert second == first + 1
    _, events, rank = msgspec.msgpack.decode(messages[1][2])
    assert rank == 3
    assert [event["block_hashes"] for event in events] == [[2]]


async def test_a_subscriber_to_another_topic_gets_nothing() -> None:
    async with publishing() as publisher, subscribed(publisher, "kv@127.0.0.1:8000") as client:
        client.unsubscribe("kv@127.0.0.1:8000")
        client.subscribe("kv@other")
        # A second reader proves that the message has been sent before the first one is asked.
        async with subscribed(publisher) as witness:
            publisher.publish(removed(1))
            await receive(witness)
        assert not await client.poll(0)


async def test_a_step_without_events_sends_nothing() -> None:
    async with publishing() as publisher:
        publisher.publish([])
        publisher.publish(CLEARED)
        numbers = [frames[2] for frames in (await replay(publisher, b"", encode_seq(0)))[:-1]]
    assert numbers == [encode_seq(0)]


async def test_a_replay_is_framed_as_recorded() -> None:
    async with publishing() as publisher:
        for number in range(4):
            publisher.publish(removed(number))
        ours = await replay(publisher, b"", encode_seq(0))
        beyond = await replay(publisher, b"", encode_seq(1000))
    theirs = recorded_replies("DEALER-from-105")
    # Our numbers start at 0 and the recorded ones at 105.
    numbers = [int.from_bytes(frames[2], "big") for frames in theirs[:-1]]
    assert numbers == [105, 106, 107, 108]
    assert [frames[2] for frames in ours[:-1]] == [encode_seq(n - 105) for n in numbers]
    assert [frames[:2] for frames in ours] == [frames[:2] for frames in theirs]
    assert ours[-1] == theirs[-1]
    assert beyond == recorded_replies("DEALER-from-1108")


async def test_a_replay_starts_where_it_is_asked_to() -> None:
    async with publishing() as publisher:
        for number in range(5):
            publisher.publish(removed(number))
        *replies, _ = await replay(publisher, b"", encode_seq(3))
    assert [frames[2] for frames in replies] == [encode_seq(3), encode_seq(4)]
    (event,) = msgspec.msgpack.decode(replies[0][3])[1]
    assert event["block_hashes"] == [3]


async def test_replies_of_older_engines_have_no_topic() -> None:
    async with publishing(Form(topic=TOPIC, replay_topic_frame=False)) as publisher:
        publisher.publish(CLEARED)
        message, end = await replay(publisher, b"", encode_seq(0))
    assert (message[0], message[1], len(message)) == (b"", encode_seq(0), 3)
    assert end == [b"", b"\xff" * 8, b""]


async def test_a_malformed_replay_request_gets_no_answer_and_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with publishing() as publisher:
        with connected(zmq.DEALER, publisher.replay_port) as client:
            for request in (
                [encode_seq(0)],
                [b"", b"\0"],
                [b"", b"", b"", b""],
                [b"x", encode_seq(0)],
            ):
                await client.send_multipart(request)
            await client.send_multipart([b"", encode_seq(0)])
            assert await receive(client) == [b"", b"", b"\xff" * 8, b""]
            assert not await client.poll(0)
    assert [record.message for record in caplog.records] == ["events.replay_malformed"] * 4


async def test_a_replay_reaches_back_10000_messages_and_loses_none() -> None:
    async with publishing() as publisher:
        for number in range(BUFFER_STEPS + 50):
            publisher.publish(removed(number))
        *replies, _ = await replay(publisher, b"", encode_seq(0))
    numbers = [int.from_bytes(frames[2], "big") for frames in replies]
    assert numbers == list(range(50, BUFFER_STEPS + 50))


async def test_a_reader_that_pauses_loses_nothing() -> None:
    count = 3000
    # More than the reader's queue and the buffers of the connection take together.
    filler = [event for number in range(150) for event in removed(number)]
    async with publishing() as publisher, subscribed(publisher, queue=1) as client:
        for _ in range(count):
            publisher.publish(filler)
        numbers = [int.from_bytes((await receive(client))[1], "big") for _ in range(count)]
    assert numbers == list(range(numbers[0], numbers[0] + count))


async def test_messages_are_held_back_from_live_readers_and_replays() -> None:
    async with publishing(Form(topic=TOPIC, delay_s=60.0)) as publisher:
        publisher.publish(CLEARED)
        assert len(await replay(publisher, b"", encode_seq(0))) == 1


async def test_messages_held_back_come_late_and_in_order() -> None:
    loop = asyncio.get_running_loop()
    async with publishing(Form(topic=TOPIC, delay_s=0.05)) as publisher:
        sent_s = loop.time()
        for number in range(5):
            publisher.publish(removed(number))
        replies = await replay(publisher, b"", encode_seq(0))
        while len(replies) < 6:
            await asyncio.sleep(0.005)
            replies = await replay(publisher, b"", encode_seq(0))
        assert loop.time() - sent_s >= 0.05
    payloads = [msgspec.msgpack.decode(frames[3]) for frames in replies[:-1]]
    assert [events[0]["block_hashes"] for _, events, _ in payloads] == [[n] for n in range(5)]


async def test_a_port_in_use_is_refused_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot bind tcp://127.0.0.1:{port}") as refused:
            Publisher("127.0.0.1", port, None, PLAIN)
        with pytest.raises(OSError, match=f"cannot bind tcp://127.0.0.1:{port}"):
            Publisher("127.0.0.1", 0, port, PLAIN)
    assert "\n" not in str(refused.value)


async def test_events_without_replays_bind_one_port() -> None:
    publisher = Publisher("127.0.0.1", 0, None, PLAIN)
    assert publisher.port > 0
    assert publisher.replay_port is None
    publisher.close()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "tcp://127.0.0.1:1"),
        ("0.0.0.0", "tcp://*:1"),
        ("::", "tcp://*:1"),
        ("::1", "tcp://[::1]:1"),
        ("engine-0", "tcp://engine-0:1"),
    ],
)
def test_an_address_is_written_as_zmq_wants_it(host: str, address: str) -> None:
    assert endpoint(host, 1) == address
