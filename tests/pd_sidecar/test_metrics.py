from __future__ import annotations

from pd_sidecar.connectors.types import Outcome
from pd_sidecar.metrics import exposition
from tests.pd_sidecar.fakes import DECODED, PREFILLED, FakeEngine, setup
from tests.support.ports import free_port


async def test_the_page_counts_prefills_by_outcome_and_the_rest() -> None:
    port = free_port()
    engines = FakeEngine(PREFILLED), FakeEngine(DECODED)
    async with setup(*engines, metrics_port=port) as fake:
        await fake.ask({"prompt": "x"})
        await fake.ask({"prompt": "x"}, at="")
        async with fake.session.get(f"http://127.0.0.1:{port}/metrics") as response:
            page = await response.read()
    assert page == exposition(fake.stats)
    text = page.decode()
    for outcome in Outcome:
        count = 1 if outcome is Outcome.OK else 0
        assert f'warmroute_pd_prefill_total{{outcome="{outcome}"}} {count}.0' in text
    assert "warmroute_pd_alone_total 1.0" in text
    assert "warmroute_pd_denied_total 0.0" in text
