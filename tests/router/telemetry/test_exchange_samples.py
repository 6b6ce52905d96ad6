from __future__ import annotations

import pytest

from router.extproc.stats import StreamStats
from router.telemetry.exchange_samples import samples
from router.telemetry.metrics import Metrics


@pytest.mark.parametrize("ended", [True, False], ids=["asked-for", "usual"])
def test_how_streams_ended_is_published_where_it_is_asked_for(ended: bool) -> None:
    stats = StreamStats(tells_ends=ended)
    stats.open = 3
    for code, seconds in (("OK", 0.02), ("OK", 2.0), ("Canceled", 0.02)):
        stats.closed(code, seconds)
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: samples(stats))

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"llm_d_epp_extproc_{name}", labels)

    assert value("streams_inflight") == 3
    assert value("streams_total", code="OK") == (2 if ended else None)
    assert value("streams_total", code="Canceled") == (1 if ended else None)
    duration = "stream_duration_seconds"
    assert value(f"{duration}_sum") == (pytest.approx(2.04) if ended else None)
    assert value(f"{duration}_bucket", le="0.05") == (2 if ended else None)
    assert value(f"{duration}_bucket", le="600.0") == (3 if ended else None)
