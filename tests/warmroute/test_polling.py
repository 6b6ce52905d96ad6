"""What is read of endpoints follows the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from router.config.data_layer import DataLayer
from router.config.load import load
from router.pool.pool import Pool
from tests.router.pool.engines import Engine, running, until
from tests.support import make
from warmroute.errors import StartError
from warmroute.polling import Polling

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def data(kind: str = "metrics-data-source", **parameters: Any) -> DataLayer:
    source = {"pluginRef": kind}
    given = {
        "plugins": [{"type": "max-score-picker"}, {"type": kind, "parameters": parameters}],
        "dataLayer": {"sources": [source]},
    }
    return load(msgspec.json.encode(HEAD | given).decode()).data


@asynccontextmanager
async def polling(pool: Pool) -> AsyncIterator[Polling]:
    async with asyncio.TaskGroup() as group:
        owner = Polling(pool, group, None)
        yield owner
        owner.close()


async def test_another_page_is_read_once_the_configuration_says_so() -> None:
    async with running(Engine()) as engine:
        pool = Pool([make.endpoint(engine.address)])
        async with polling(pool) as owner:
            owner.adopt(data(interval="50ms"))
            await until(lambda: engine.asked["/metrics"] > 1)
            owner.adopt(data(interval="50ms", path="/other"))
            await until(lambda: engine.asked["/other"] > 1)
            asked = engine.asked["/metrics"]
            await until(lambda: engine.asked["/other"] > 3)
            assert engine.asked["/metrics"] <= asked
            assert pool.snapshot()[0].metrics is not None


async def test_what_did_not_change_goes_on() -> None:
    async with polling(Pool()) as owner:
        owner.adopt(data())
        scraper = owner.scraper
        owner.adopt(data())
        assert owner.scraper is scraper


async def test_gpu_exporters_are_read_where_they_are_listed() -> None:
    async with running(Engine()) as exporter:
        exporter.metrics = "DCGM_FI_DEV_GPU_UTIL 30"
        port = int(exporter.address.rpartition(":")[2])
        pool = Pool([make.endpoint("127.0.0.1:9")])
        async with polling(pool) as owner:
            owner.adopt(data("dcgm-data-source", port=port, interval="50ms"))
            await until(lambda: pool.snapshot()[0].attributes == {"GPUUtilization": 0.3})


async def test_a_certificate_that_cannot_be_used_changes_nothing() -> None:
    async with polling(Pool()) as owner:
        owner.adopt(data())
        scraper = owner.scraper
        with pytest.raises(StartError, match="a certificate cannot be used"):
            owner.adopt(
                data(scheme="https", insecureSkipVerify=False, caCertPath="/nowhere/ca.crt")
            )
        assert owner.scraper is scraper
