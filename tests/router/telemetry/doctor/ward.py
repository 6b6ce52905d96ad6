"""A doctor over a real pool and index, whose world a test makes ill."""

from __future__ import annotations

from typing import Any

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.inflight import InFlightLoad
from router.producers.tokens import TokenStats
from router.request.types import Request
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import Decisions, Record
from router.telemetry.doctor.doctor import Doctor
from router.telemetry.doctor.finding import Finding
from tests.router.producers.test_prefix import A, Fixture


class Backend:
    """A tokenizer that is there."""

    def __init__(self) -> None:
        self.stats = TokenStats()
        self.stats.connected = True

    async def tokenize(self, model: str, request: Request) -> Any:
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError


class Configured:
    """A configuration that is in force."""

    def __init__(self) -> None:
        self.error: str | None = None
        self.reloads = self.failures = 0
        self.warnings: tuple[str, ...] = ()


class Ward:
    """Nothing is wrong until a test does something."""

    def __init__(self, *endpoints: Endpoint, **parameters: Any) -> None:
        self.fixture = Fixture(*endpoints, **parameters)
        self.now = 1000.0
        self.decisions = Decisions()
        self.backend = Backend()
        self.load = InFlightLoad("load")
        self.config = Configured()
        self.comparison = Comparison()
        self.doctor = Doctor(
            self.fixture.pool,
            self.decisions,
            prefixes=[self.fixture.prefix],
            tokenizers=[self.backend],
            loads=[self.load],
            config=self.config,
            comparison=self.comparison,
            clock=lambda: self.now,
        )
        self.fixture.pool.listen(self.doctor)
        for endpoint in self.fixture.pool.snapshot():
            self.scrape(endpoint.address)

    def scrape(self, address: str, **figures: Any) -> None:
        told = {"waiting": 0, "running": 0, "kv_usage": 0.0, "process_start": 900.0, **figures}
        metrics = EngineMetrics(scraped_at=self.now, good_for_s=10_000.0, **told)
        self.fixture.pool.scraped(address, metrics)

    def wait(self, seconds: float) -> None:
        """The doctor looks, then again so much later."""
        self.doctor.tick()
        self.now += seconds

    def answered(self, address: str = A, **fields: Any) -> Record:
        """A request that was answered there just now, of a prompt nobody held."""
        told = {"status": 200, "total_blocks": 4, "block_size": 16, "prompt_tokens": 70, **fields}
        number = len(list(self.decisions.all()))
        record = Record(
            request_id=f"r{number}",
            at=self.now,
            kind="chat",
            model="m",
            target_model="m",
            endpoint=address,
        )
        for name, value in told.items():
            setattr(record, name, value)
        self.decisions.add(record)
        self.comparison.ended(record)
        return record

    def findings(self, silence_s: float = 30.0) -> list[Finding]:
        return self.doctor.findings(silence_s)

    def codes(self, silence_s: float = 30.0) -> list[tuple[str, str]]:
        return [(finding.code, finding.about) for finding in self.findings(silence_s)]

    def only(self) -> Finding:
        """The one thing that is wrong."""
        (finding,) = self.findings()
        return finding
