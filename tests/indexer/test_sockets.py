"""Sockets: what they are asked for and what their monitors tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import zmq

from indexer import sockets
from indexer.sockets import Context, Monitored
from tests.support.ports import free_port


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    assert all(socket.closed for socket in context._sockets)
    context.term()


async def changed(link: Monitored) -> tuple[bool, int]:
    async with asyncio.timeout(10):
        while True:
            for change in link.changes():
                return change
            try:
                link.socket.recv(zmq.NOBLOCK)  # lets ZMQ take note of what happened
            except zmq.Again:
                await asyncio.sleep(0.005)


async def test_connections_that_come_and_break_are_told(context: Context) -> None:
    with context.socket(zmq.XPUB) as engine:
        engine.bind("tcp://127.0.0.1:*")
        link = Monitored(context, engine.getsockopt_string(zmq.LAST_ENDPOINT))
        came, _ = await changed(link)
        assert came
        engine.unbind(engine.getsockopt_string(zmq.LAST_ENDPOINT))
    came, _ = await changed(link)
    assert not came
    link.close()


async def test_on_a_bound_socket_a_message_tells_the_connection_that_broke(
    context: Context,
) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    link = Monitored(context, endpoint, bind=True)
    engine = context.socket(zmq.XPUB)
    engine.setsockopt(zmq.LINGER, 0)
    engine.connect(endpoint)
    assert (await changed(link))[0]
    async with asyncio.timeout(10):
        while True:
            engine.send_multipart([b"a", b"b"])
            try:
                frames, first = sockets.receive(link.socket)
                break
            except zmq.Again:
                await asyncio.sleep(0.005)
    assert frames == [b"a", b"b"]
    used = int(first.get(zmq.SRCFD))
    engine.close()
    assert await changed(link) == (False, used)
    link.close()


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:0", "tcp://127.0.0.1:99999", "tcp://a:b"])
def test_a_port_that_cannot_be_is_refused(context: Context, endpoint: str) -> None:
    with pytest.raises(ValueError, match="not a TCP port"):
        Monitored(context, endpoint)
    with pytest.raises(ValueError, match="not a TCP port"):
        sockets.dealer(context, endpoint)


def test_what_zmq_refuses_leaves_no_socket(context: Context) -> None:
    with pytest.raises(zmq.ZMQError):
        Monitored(context, "warp://x:1")
    with pytest.raises(zmq.ZMQError):
        sockets.dealer(context, "warp://x:1")


def test_no_queue_is_bounded(context: Context) -> None:
    dealer = sockets.dealer(context, "tcp://127.0.0.1:9")
    assert (dealer.getsockopt(zmq.RCVHWM), dealer.getsockopt(zmq.LINGER)) == (0, 0)
    dealer.close()


TOPIC, NUMBER = b"kv@a@tiny", bytes(8)
LIVE = [TOPIC, NUMBER, b"payload"]


@pytest.mark.parametrize(
    "odd",
    [
        [b"x"], [b"x", b"y"], [b"x"] * 4, [b"other", NUMBER, b"payload"], [TOPIC],
        [TOPIC, b"y"], [TOPIC, b"y", b"z"], [TOPIC, b"y", *LIVE], [TOPIC, NUMBER], [*LIVE, b"x"],
    ],
    ids=str,
)  # fmt: skip
def test_messages_of_any_number_of_frames_are_told_apart(
    context: Context, odd: list[bytes]
) -> None:
    with context.socket(zmq.PAIR) as engine, context.socket(zmq.PAIR) as socket:
        engine.bind("inproc://engine")
        socket.connect("inproc://engine")
        sent = [LIVE, odd, LIVE, LIVE]
        for message in sent:
            engine.send_multipart(message)
        assert [sockets.receive(socket)[0] for _ in sent] == sent
        with pytest.raises(zmq.Again):
            sockets.receive(socket)
