"""An API per test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.indexer.conductor.api import Api, running
from tests.indexer.subscribed import Context


@pytest.fixture
async def api(context: Context) -> AsyncIterator[Api]:
    async with running(context) as api:
        yield api
