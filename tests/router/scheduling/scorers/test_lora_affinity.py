from __future__ import annotations

from typing import Any

import pytest

from router.scheduling.scorers.lora_affinity import LoraAffinityScorer
from tests.support import make


def adapters(running: str = "", waiting: str = "", most: int | None = 4) -> dict[str, Any]:
    return {
        "running_adapters": tuple(running.split()),
        "waiting_adapters": tuple(waiting.split()),
        "max_adapters": most,
    }


RUNNING = adapters("sql chat", most=2)
ROOM = adapters("chat", "code", most=3)
WAITING = adapters("chat", "sql", most=2)
FULL = adapters("chat", "code", most=2)
NO_ADAPTERS = adapters(most=None)


@pytest.mark.parametrize(
    ("figures", "scores"),
    [
        pytest.param([RUNNING, ROOM, WAITING, FULL], [1.0, 0.8, 0.6, 0.0], id="the-four-cases"),
        pytest.param([adapters("sql", "sql")], [1.0], id="running-counts-first"),
        pytest.param([adapters("chat", "sql")], [0.8], id="room-counts-before-waiting"),
        pytest.param([NO_ADAPTERS, ROOM], [0.0, 0.8], id="an-engine-without-adapters"),
        pytest.param([RUNNING, FULL, {}], [1.0, 0.0, 0.5], id="never-scraped-is-the-mean"),
        pytest.param([{}, {}], [0.0, 0.0], id="nothing-known"),
    ],
)
def test_loaded_adapters_score_higher(figures: list[dict[str, Any]], scores: list[float]) -> None:
    endpoints = [make.endpoint(f"e{i}", **f) for i, f in enumerate(figures)]
    request = make.request(model="sql")
    assert LoraAffinityScorer().score(request, endpoints, make.facts()) == scores
