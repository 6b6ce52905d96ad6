"""One engine core in motion: the loop that steps it in real time and hands out what it brings. IO.

A step's events are sent before its tokens are handed out: whoever has seen an answer can rely on
the events of its prompt being on the way.
"""

from __future__ import annotations

import asyncio
import time

from simulator.engine import Engine
from simulator.events import Publisher
from simulator.metrics import Metrics
from simulator.types import EngineRequest, Output, StepResult

_CATCH_UP_S = 0.01
"""A step that the machine starts late by up to this much still ends on time."""


class Rank:
    """
    Attributes:
        number: The data-parallel rank.
        engine: Read it freely; only this class adds to it and steps it.
        publisher: Sends its events; None when nobody shall hear of them.
    """

    def __init__(
        self, number: int, engine: Engine, metrics: Metrics, publisher: Publisher | None
    ) -> None:
        self.number = number
        self.engine = engine
        self._metrics = metrics
        self.publisher = publisher
        self._outputs: dict[str, asyncio.Queue[Output]] = {}
        self._work = asyncio.Event()

    @property
    def unfinished(self) -> int:
        return self.engine.running + self.engine.waiting

    def submit(self, request: EngineRequest, outputs: asyncio.Queue[Output]) -> None:
        """Queue a request; its tokens come to `outputs`. Raises ValueError if it cannot fit."""
        self.engine.add(request, time.monotonic())
        self._outputs[request.request_id] = outputs
        self._work.set()

    def abort(self, request_id: str) -> None:
        """Forget a request, wherever it is; nothing for one that has ended."""
        if self._outputs.pop(request_id, None) is not None:
            self.engine.abort(request_id)

    async def run(self) -> None:
        """Step the engine until cancelled."""
        ended_s = 0.0
        while True:
            started_s = max(ended_s, time.monotonic() - _CATCH_UP_S)
            step = self.engine.schedule(time.monotonic())
            if step is None:
                self._work.clear()
                await self._work.wait()
                ended_s = time.monotonic()
                continue
            self._note_adapters()
            ended_s = started_s + step.duration_s
            await asyncio.sleep(max(0.0, ended_s - time.monotonic()))
            self._hand_out(self.engine.complete(time.monotonic()))

    def _hand_out(self, result: StepResult) -> None:
        if self.publisher is not None:
            self.publisher.publish(result.events)
        self._metrics.observe(self.number, result)
        self._note_adapters()
        for output in result.outputs:
            queue = self._outputs.get(output.request_id)
            if queue is None:
                continue
            queue.put_nowait(output)
            if output.finish_reason is not None:
                del self._outputs[output.request_id]

    def _note_adapters(self) -> None:
        self._metrics.note_adapters(self.number, time.time())
