from __future__ import annotations

from router.pool.endpoint import EngineMetrics
from router.telemetry.doctor.scraping import NEW_S
from tests.router.producers.test_prefix import A, B
from tests.router.telemetry.doctor.ward import Ward
from tests.support import make


def test_an_old_scrape_is_named_with_its_age() -> None:
    ward = Ward()
    figures = EngineMetrics(waiting=0, running=0, scraped_at=ward.now, good_for_s=4.0)
    ward.fixture.pool.scraped(A, figures)
    ward.wait(4.0)
    assert ward.codes() == []
    ward.wait(6.0)
    finding = ward.only()
    assert (finding.code, finding.about) == ("metrics-stale", A)
    assert (finding.evidence["age_s"], finding.evidence["good_for_s"]) == (10.0, 4.0)
    for _ in range(3):
        ward.fixture.pool.scrape_failed(A)
    assert "no candidate" in ward.only().what


def test_an_endpoint_that_came_has_time_for_its_first_scrape() -> None:
    ward = Ward()
    endpoint = make.endpoint("10.0.0.9:8000")
    ward.fixture.pool.replace([*ward.fixture.pool.snapshot(), endpoint])
    for source in ward.fixture.prefix.sources([endpoint]):
        ward.fixture.prefix.index.open(source).connected()
    assert ward.codes() == []
    ward.wait(NEW_S)
    assert ward.only().evidence["age_s"] is None


def test_a_page_of_another_kind_of_engine_lacks_all_figures() -> None:
    ward = Ward()
    ward.fixture.pool.scrape_failed(B, "no-metrics")
    finding = ward.only()
    assert (finding.code, finding.about) == ("metrics-incomplete", B)
    assert finding.evidence == {"missing": ["waiting", "running"], "ignored_lines": 0}
    ward.wait(20_000)
    stale = {f.about: f for f in ward.findings() if f.code == "metrics-stale"}
    assert stale[B].evidence["fault"] == "no-metrics"
    assert stale[B].fix == finding.fix
    assert "/metrics answers from here" in stale[A].fix
    ward.scrape(B)
    assert {(f.code, f.about) for f in ward.findings()} == {("metrics-stale", A)}


def test_figures_that_a_page_lacks_are_named() -> None:
    ward = Ward()
    ward.scrape(B, running=None)
    finding = ward.only()
    assert (finding.code, finding.about) == ("metrics-incomplete", B)
    assert finding.evidence["missing"] == ["running"]
