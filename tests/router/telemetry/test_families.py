from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from router.telemetry.families import Families
from router.telemetry.series import LABELS


def test_names_and_labels_are_those_of_llm_d_or_ours() -> None:
    registry = CollectorRegistry()
    make = Families(registry)
    make.counter("things", "Some.", ("kind",)).labels("a").inc()
    make.histogram("sizes", "Of some.", (1, 2)).labels("m", "t", "f", "0").observe(2)
    make.ours("others", "More.").inc()
    of_requests = dict(zip(LABELS, ("m", "t", "f", "0"), strict=True))
    assert registry.get_sample_value("llm_d_epp_things_total", {"kind": "a"}) == 1
    assert registry.get_sample_value("llm_d_epp_sizes_sum", of_requests) == 2
    assert registry.get_sample_value("warmroute_others_total") == 1
    text = generate_latest(registry).decode()
    assert "# HELP llm_d_epp_things_total [ALPHA] Some." in text
    assert "# HELP warmroute_others_total More." in text
