"""Turns: who is read, how much at a time, and what an error costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
import zmq

from indexer import turns
from indexer.turns import Turns


class Heap:
    """A reader with so many messages; it has no socket, so it is read when it is woken."""

    sockets: Sequence[zmq.Socket[bytes]] = ()

    def __init__(self, messages: int, broken: bool = False) -> None:
        self.left = messages
        self.failed = 0
        self._broken = broken

    def read(self) -> bool:
        if not self.left:
            return False
        self.left -= 1
        if self._broken:
            raise RuntimeError("broken")
        return True

    def fail(self) -> None:
        self.failed += 1


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_is_there_already_is_read() -> None:
    heap = Heap(3)
    Turns().add(heap)
    await rounds()
    assert heap.left == 0


async def test_readers_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BURST_READS", 2)
    monkeypatch.setattr(turns, "TURN_S", 10.0)
    order: list[int] = []

    class Noting(Heap):
        def read(self) -> bool:
            order.append(id(self))
            return super().read()

    taking, first, second = Turns(), Noting(4), Noting(4)
    taking.add(first)
    taking.add(second)
    await rounds()
    assert order[:6] == [id(first)] * 2 + [id(second)] * 2 + [id(first)] * 2


async def test_a_turn_that_is_over_gives_the_loop_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", 0.001)

    class Slow(Heap):
        def read(self) -> bool:
            time.sleep(0.002)
            return super().read()

    heap, taking = Slow(100), Turns()
    taking.add(heap)
    await rounds()
    assert 95 <= heap.left < 100
    taking.close()
    await rounds()
    left = heap.left
    await rounds()
    assert heap.left == left


async def test_an_error_is_the_readers_to_count_and_reading_goes_on() -> None:
    heap = Heap(3, broken=True)
    Turns().add(heap)
    await rounds()
    assert (heap.left, heap.failed) == (0, 3)


async def test_a_reader_that_was_removed_is_not_read() -> None:
    heap = Heap(3)
    taking = Turns()
    taking.add(heap)
    taking.remove(heap)
    await rounds()
    assert heap.left == 3
