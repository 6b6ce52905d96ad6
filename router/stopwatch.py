"""Stopwatch: how long each stage of one request took, and how much of it was spent waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, TypeVar

_T = TypeVar("_T")


class Stopwatch:
    """
    Attributes:
        times_ms: Stage -> milliseconds.
    """

    __slots__ = ("_began", "_clock", "_since", "_waited_s", "times_ms")

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self.times_ms: dict[str, float] = {}
        self._clock = clock
        self._began = self._since = clock()
        self._waited_s = 0.0

    def lap(self, stage: str) -> None:
        """What happened since the last call, or the start, was this stage."""
        now = self._clock()
        self.times_ms[stage] = (now - self._since) * 1e3
        self._since = now

    def watched(self, awaited: Awaitable[_T]) -> Awaitable[_T]:
        """The same; what lies between its steps is no work of ours."""
        return _Watched(awaited, self._clock, self._waited)

    @property
    def own_ms(self) -> float:
        """Since the start, without what was spent between the steps of what is watched."""
        return (self._clock() - self._began - self._waited_s) * 1e3

    def _waited(self, seconds: float) -> None:
        self._waited_s += seconds


class _Watched(Generator[Any, Any, _T]):
    """An awaitable that tells how long it waits before each of its steps but the first."""

    def __init__(
        self, awaited: Awaitable[_T], clock: Callable[[], float], waited: Callable[[float], None]
    ) -> None:
        self._steps: Generator[Any, Any, _T] = awaited.__await__()
        self._clock = clock
        self._waited = waited
        self._left_at: float | None = None

    def __await__(self) -> Generator[Any, Any, _T]:
        return self

    def send(self, value: Any) -> Any:
        self._come_back()
        sent = self._steps.send(value)
        self._left_at = self._clock()
        return sent

    def throw(
        self,
        typ: Any,
        val: Any = None,
        tb: TracebackType | None = None,
    ) -> Any:
        self._come_back()
        sent = self._steps.throw(typ if val is None else val)
        self._left_at = self._clock()
        return sent

    def _come_back(self) -> None:
        if self._left_at is not None:
            self._waited(self._clock() - self._left_at)
            self._left_at = None
