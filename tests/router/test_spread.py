"""How configurations spread work, first of all the built-in one: bursts, newcomers, prefixes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pytest

from router.config.builtin import BUILTIN
from router.config.load import load
from router.config.motor import AFFINITY
from router.config.plugins import Plugin
from router.director import Director
from router.errors import RouterError
from router.lineup import Lineup
from router.pool.endpoint import ROLE_LABEL, EngineMetrics
from router.pool.pool import Pool
from router.producers.inflight import InFlightLoad, InFlightLoadParameters
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.producers.tokens import Missing, TokenProducer
from router.producers.types import Producer
from router.routed import Routed
from router.telemetry.decisions import Record
from tests.router.producers.test_tokens import Answers
from tests.support import make
from tests.support.envoy_messages import POST

PROMPT_TOKENS = 200


class Nobody:
    """An observer that is not interested."""

    def routed(self, record: Record) -> None: ...

    def refused(self, record: Record, error: RouterError) -> None: ...

    def gap(self, record: Record, seconds: float) -> None: ...

    def ended(self, record: Record) -> None: ...


class Router:
    """A configuration over a pool, with a clock that a test moves.

    Clients send token ids, so nobody has to tokenize. `roles` are those of endpoints that have one.
    """

    def __init__(
        self,
        *endpoints: str,
        seed: int = 0,
        text: str = BUILTIN,
        roles: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        config = load(text)
        self.now = 1000.0
        self.prompts = random.Random(seed)
        labels = {name: {ROLE_LABEL: role} for name, role in roles.items()}
        self.pool = Pool(make.endpoint(name, labels=labels.get(name, {})) for name in endpoints)
        producers = [self._producer(plugin) for plugin in config.producers]
        self.director = Director(
            Lineup(profiles=config.profiles, handler=config.handler, producers=producers),
            self.pool,
            Nobody(),
            rng=random.Random(seed),
            clock=lambda: self.now,
        )
        self.pool.listen(self.director.newcomers)

    def _producer(self, plugin: Plugin) -> Producer:
        match plugin.value:
            case TokenParameters():
                unused = Answers(Missing.UNAVAILABLE)
                return TokenProducer(plugin.name, unused, str, lambda: self.now)
            case PrecisePrefixParameters() as parameters:
                return PrecisePrefix(
                    plugin.name,
                    parameters,
                    resolve=self.pool.resolve_model,
                    clock=lambda: self.now,
                    notified=True,
                )
            case InFlightLoadParameters() as parameters:
                return InFlightLoad(plugin.name, parameters)
            case _:
                pass
        raise AssertionError(plugin.type)

    def scraped(self, address: str, **figures: float) -> None:
        self.pool.scraped(address, EngineMetrics(scraped_at=self.now, **figures))  # type: ignore[arg-type]

    def prompt(self) -> list[int]:
        """One that nobody has seen."""
        return [self.prompts.randrange(100_000) for _ in range(PROMPT_TOKENS)]

    async def route(self, prompt: Sequence[int] | None = None) -> Routed:
        body = json.dumps({"model": "m", "prompt": prompt or self.prompt()}).encode()
        return await self.director.route(POST, body)

    def finish(self, requests: Iterable[Routed]) -> None:
        for routed in requests:
            self.director.responded(routed, 200, {})
            self.director.ended(routed)


def shares(requests: Iterable[Routed]) -> Counter[str]:
    return Counter(routed.destination for routed in requests)


EIGHT = [f"10.0.0.{i}:8000" for i in range(8)]


@pytest.mark.parametrize("scraped", [True, False], ids=["scraped", "never-scraped"])
async def test_bursts_on_equal_endpoints_spread_evenly(scraped: bool) -> None:
    router = Router(*EIGHT)
    total: Counter[str] = Counter()
    for _ in range(10):
        for address in EIGHT if scraped else ():
            router.scraped(address, waiting=0, running=0, kv_usage=0.0)
        burst = [await router.route() for _ in range(80)]
        assert max(shares(burst).values()) <= 2 * 80 / 8
        total += shares(burst)
        router.finish(burst)
        router.now += 5.0
    assert all(75 <= total[address] <= 125 for address in EIGHT)


@pytest.mark.parametrize("answer_s", [0.5, 20.0], ids=["short-answers", "long-answers"])
async def test_a_new_endpoint_takes_at_most_half_of_cold_traffic_at_first(answer_s: float) -> None:
    router = Router("a:1", "b:1")
    router.now += 3600
    running: list[tuple[float, Routed]] = []

    async def send(count: int) -> Counter[str]:
        """50 requests a second, each of them new."""
        sent = []
        for _ in range(count):
            router.now += 0.02
            router.finish(routed for at, routed in running if at <= router.now)
            running[:] = [(at, routed) for at, routed in running if at > router.now]
            sent.append(await router.route())
            running.append((router.now + answer_s, sent[-1]))
        return shares(sent)

    await send(1000)
    router.pool.replace(map(make.endpoint, ("a:1", "b:1", "c:1")))
    first = await send(250)
    assert 0 < first["c:1"] <= 125
    later = await send(2000)
    assert later["c:1"] >= 0.3 * 2000


async def test_new_prefixes_spread_and_each_stays_where_it_is() -> None:
    four = EIGHT[:4]
    router = Router(*four)
    homes: Counter[str] = Counter()
    for _ in range(16):
        shared = router.prompt()
        group = [await router.route([*shared, *router.prompt()[:20]]) for _ in range(5)]
        (home,) = shares(group)
        homes[home] += 1
    assert all(3 <= homes[address] <= 5 for address in four)


@pytest.mark.parametrize("seed", range(5))
async def test_a_burst_does_not_follow_metrics_that_are_out_of_date(seed: int) -> None:
    router = Router("a:1", "b:1", seed=seed)
    router.scraped("a:1", waiting=0, running=0, kv_usage=0.0)
    router.scraped("b:1", waiting=1, running=1, kv_usage=0.0)
    burst = shares([await router.route() for _ in range(8)])
    assert min(burst.values()) >= 3


async def test_requests_of_motor_s_split_layout_are_decoded_by_who_has_fewest() -> None:
    """Their prompts are computed elsewhere, so no token of them weighs on who decodes."""
    roles = {"p:1": "prefill", "d:1": "decode", "e:1": "decode", "f:1": "decode"}
    text = json.dumps(
        {
            "motor_coordinator_config": {"scheduler_config": {"scheduler_type": AFFINITY}},
            "motor_engine_prefill_config": {"engine_type": "vllm"},
            "motor_engine_decode_config": {"engine_type": "vllm"},
        }
    )
    router = Router(*roles, text=text, roles=roles)
    first = [await router.route() for _ in range(30)]
    assert shares(first) == {"d:1": 10, "e:1": 10, "f:1": 10}
    router.finish(routed for routed in first if routed.destination != "d:1")
    assert set(shares([await router.route() for _ in range(10)])) == {"e:1", "f:1"}
