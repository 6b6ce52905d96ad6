from __future__ import annotations

import time

from tests.support import make
from tests.warmroute.test_serve import options
from warmroute.parts import Parts


async def test_endpoints_that_come_are_newcomers() -> None:
    parts = Parts(options("--endpoints=endpoints.yaml"))
    parts.pool.replace([make.endpoint("new:1")])
    known = make.facts()
    known.now = time.time()
    pool = [make.endpoint("old:1"), *parts.pool.snapshot()]
    seen = [parts.director.newcomers.held_back(pool, known) for _ in range(100)]
    assert set(seen) == {frozenset(), frozenset({"new:1"})}
