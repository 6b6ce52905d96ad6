from __future__ import annotations

import threading

import pytest

from simulator.adapters import Served
from simulator.config import EngineConfig
from simulator.errors import ApiError
from simulator.hashing import Hasher
from simulator.language import Language
from simulator.metrics import Metrics
from simulator.prepare import Preparer
from simulator.rank import Rank
from simulator.service import Service, off_loop_if_large
from tests.simulator import make
from tests.simulator.recordings import samples
from tests.simulator.serving import served


def service(*, ranks: int = 1) -> Service:
    config = EngineConfig(adapters=("sql",))
    language = Language.load(config.model_dir)
    engines = [make.engine() for _ in range(ranks)]
    metrics = Metrics(config, engines, 0.0)
    return Service(
        config,
        language,
        Preparer(language.renderer, Hasher(4), "tiny", context_tokens=64, token_limit=64),
        [Rank(number, engine, metrics, None) for number, engine in enumerate(engines)],
        metrics,
        "topic",
        8000,
    )


def test_a_service_serves_the_configured_names() -> None:
    names = service().served
    assert isinstance(names, Served)
    assert names.base == "tiny"
    assert [adapter.name for adapter in names.adapters] == ["sql"]


def test_a_header_picks_the_rank() -> None:
    assert service(ranks=3).pick_rank("2").number == 2


@pytest.mark.parametrize("header", [None, "", "abc", "1.5"])
def test_without_a_number_the_idlest_rank_is_picked(header: str | None) -> None:
    busy = service(ranks=2)
    busy.ranks[0].engine.add(make.request(), now_s=0)
    assert busy.pick_rank(header).number == 1


@pytest.mark.parametrize("header", ["5", "-1"])
def test_a_rank_out_of_range_is_refused(header: str) -> None:
    with pytest.raises(ApiError, match=rf"data_parallel_rank {header} is out of range \[0, 1\)"):
        service().pick_rank(header)


async def test_large_bodies_are_worked_on_in_a_thread() -> None:
    here = threading.get_ident()
    assert await off_loop_if_large(100, threading.get_ident) == here
    assert await off_loop_if_large(1_000_000, threading.get_ident) != here


@pytest.mark.parametrize("name", ["err-bad-json", "err-wrong-content-type"])
async def test_a_body_that_is_not_json_is_refused_as_recorded(name: str) -> None:
    sample = samples()[name]
    headers = {key.replace("-", "_"): value for key, value in (sample.headers or {}).items()}
    async with served() as client:
        answer = await client.post(sample.path, sample.body, **headers)
    assert answer == (sample.status, sample.response)
