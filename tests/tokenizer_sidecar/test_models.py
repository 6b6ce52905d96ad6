"""Loading in the background, and again after failures."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.tokenizer_sidecar.disk import TINY, write_model
from tests.tokenizer_sidecar.wire import until
from tokenizer_sidecar.errors import ModelError
from tokenizer_sidecar.models import Backoff, Models
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.stats import Stats

QUICK = Backoff(first_s=0.01, most_s=0.02)


async def test_models_are_not_ready_before_and_ready_after_loading() -> None:
    models = Models({"tiny": TINY}, Stats(), QUICK)
    assert models.entries["tiny"].renderer is None
    assert models.entries["tiny"].message == "still loading"
    with ThreadPoolExecutor(1) as pool:
        await models.keep_loading(pool)
    assert models.entries["tiny"].renderer is not None
    assert models.entries["tiny"].message == ""


async def test_a_model_that_fails_is_loaded_once_its_files_are_good(tmp_path: Path) -> None:
    stats = Stats()
    models = Models({"bad": tmp_path, "tiny": TINY}, stats, QUICK)
    with ThreadPoolExecutor(1) as pool:
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(models.keep_loading(pool))
            await until(lambda: stats.load_failures["bad"] >= 2)
            assert models.entries["bad"].renderer is None
            assert "tokenizer.json" in models.entries["bad"].message
            await until(lambda: models.entries["tiny"].renderer is not None)
            assert not loading.done()
            write_model(tmp_path)
    assert models.entries["bad"].renderer is not None


async def test_a_library_that_panics_on_a_file_fails_only_that_model() -> None:
    class PanicException(BaseException):
        pass

    attempts = 0

    def load(directory: Path) -> Renderer:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise PanicException("index out of\nrange")
        return Renderer.load(directory)

    stats = Stats()
    models = Models({"tiny": TINY}, stats, QUICK, load)
    with ThreadPoolExecutor(1) as pool:
        await models.keep_loading(pool)
    assert (models.entries["tiny"].message, stats.load_failures["tiny"]) == ("", 1)


async def test_there_is_one_attempt_per_wait(tmp_path: Path) -> None:
    attempts: list[Path] = []

    def load(directory: Path) -> Renderer:
        attempts.append(directory)
        raise ModelError("no")

    stats = Stats()
    models = Models({"bad": tmp_path}, stats, Backoff(first_s=60.0), load)
    with ThreadPoolExecutor(1) as pool:
        async with asyncio.TaskGroup() as group:
            loading = group.create_task(models.keep_loading(pool))
            await until(lambda: stats.load_failures["bad"] == 1)
            for _ in range(50):
                assert models.entries["bad"].message == "no"
                await asyncio.sleep(0)
            loading.cancel()
    assert attempts == [tmp_path]


@pytest.mark.parametrize(
    ("failures", "wait_s"), [(1, 1.0), (2, 2.0), (3, 4.0), (7, 60.0), (10_000, 60.0)]
)
def test_waits_double_up_to_a_limit(failures: int, wait_s: float) -> None:
    assert Backoff().wait_s(failures) == wait_s
