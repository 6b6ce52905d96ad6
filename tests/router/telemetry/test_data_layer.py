from __future__ import annotations

from router.pool.gpus import GpuScraper
from router.pool.page import Page
from router.pool.pool import Pool
from router.pool.scrape import Scraper
from router.pool.sources import DcgmSourceParameters
from router.telemetry.data_layer import samples


def test_what_could_not_be_read_is_counted_by_source_and_reason() -> None:
    pool = Pool()
    scraper = Scraper(pool)
    gpus = [GpuScraper(pool, Page(DcgmSourceParameters())) for _ in range(2)]
    scraper.stats.scrapes = 7
    scraper.stats.incomplete = 1
    scraper.stats.failures.update({"timeout": 2, "no-metrics": 1})
    scraper.stats.models_failures["malformed"] += 1
    for gpu in gpus:
        gpu.failures["status"] += 1
    found = {sample.name: sample.values for sample in samples(scraper, gpus)}
    assert found["llm_d_epp_datalayer_poll_errors"] == {
        ("metrics-data-source",): 3,
        ("models-data-source",): 1,
        ("dcgm-data-source",): 2,
    }
    gpus[1].failures["no-metrics"] += 3
    scraper.stats.models_failures["timeout"] += 1
    found = {sample.name: sample.values for sample in samples(scraper, gpus)}
    assert found["llm_d_epp_datalayer_extract_errors"] == {
        ("metrics-data-source", "core-metrics-extractor"): 1,
        ("models-data-source", "models-data-extractor"): 1,
        ("dcgm-data-source", "dcgm-extractor"): 3,
    }
    assert found["warmroute_read_failures"]["dcgm-data-source", "status"] == 2
    assert found["warmroute_reads"] == {("metrics-data-source",): 7, ("models-data-source",): 0}
    assert found["warmroute_metrics_incomplete"] == {(): 1}
