"""ZMQ sockets as event streams need them: options, frames, and what their monitors tell. IO."""

from __future__ import annotations

from collections.abc import Iterator

import zmq
from zmq.utils.monitor import parse_monitor_message

Context = zmq.Context[zmq.Socket[bytes]]

_OPTIONS = (
    (zmq.RCVHWM, 0),  # a bound would lose events silently
    (zmq.LINGER, 0),
    (zmq.IPV6, 1),
    (zmq.MAXMSGSIZE, 64 << 20),
    (zmq.RECONNECT_IVL, 100),
    (zmq.RECONNECT_IVL_MAX, 2000),
    (zmq.CONNECT_TIMEOUT, 5000),
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 10),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 3),
)

_EVENTS = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED


class Monitored:
    """A SUB socket for all topics, and the monitor of its connections.

    It takes every topic since a socket that filters does not say what it left out.
    """

    def __init__(self, context: Context, endpoint: str, *, bind: bool = False) -> None:
        """Raises ValueError or zmq.ZMQError."""
        check_port(endpoint)
        self.socket = context.socket(zmq.SUB)
        self.monitor = self.socket.get_monitor_socket(_EVENTS)
        try:
            set_options(self.socket)
            self.socket.setsockopt(zmq.SUBSCRIBE, b"")
            if bind:
                self.socket.bind(endpoint)
            else:
                self.socket.connect(endpoint)
        except zmq.ZMQError:
            self.close()
            raise

    @property
    def sockets(self) -> tuple[zmq.Socket[bytes], ...]:
        return (self.socket, self.monitor)

    def changes(self) -> Iterator[tuple[bool, int]]:
        """Connections that came (True) or broke since the last call, and their descriptors."""
        while True:
            try:
                told = parse_monitor_message(self.monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            yield told["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED, int(told["value"])

    def close(self) -> None:
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=0)


def dealer(context: Context, endpoint: str) -> zmq.Socket[bytes]:
    """A DEALER socket that connects. Raises ValueError or zmq.ZMQError."""
    check_port(endpoint)
    socket = context.socket(zmq.DEALER)
    try:
        set_options(socket)
        socket.connect(endpoint)
    except zmq.ZMQError:
        socket.close(linger=0)
        raise
    return socket


def set_options(socket: zmq.Socket[bytes]) -> None:
    for option, value in _OPTIONS:
        socket.setsockopt(option, value)


def receive(socket: zmq.Socket[bytes]) -> tuple[list[bytes], zmq.Frame]:
    """The next message, and its first frame; raises zmq.Again if there is none.

    A frame knows whether more follow, which spares the question `recv_multipart` asks of the
    socket after each.
    """
    first = frame = socket.recv(zmq.NOBLOCK, copy=False)
    frames = [frame.bytes]
    while frame.more:
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        frames.append(frame.bytes)
    return frames, first


def check_port(endpoint: str) -> None:
    """Raise ValueError for a TCP port that libzmq accepts and then never reaches."""
    scheme, _, address = endpoint.partition("://")
    port = address.rpartition(":")[2]
    if scheme == "tcp" and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError(f"not a TCP port: {port!r} in {endpoint!r}")
