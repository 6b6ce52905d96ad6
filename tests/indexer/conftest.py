"""A ZMQ context that must be left clean, and subscriptions on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import zmq

from tests.indexer.subscribed import Bench, Context


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    assert all(socket.closed for socket in context._sockets)
    context.term()


@pytest.fixture
async def bench(context: Context) -> AsyncIterator[Bench]:
    bench = Bench(context)
    yield bench
    bench.subscriptions.close()
