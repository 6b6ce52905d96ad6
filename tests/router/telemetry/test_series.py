from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from router.telemetry import buckets
from router.telemetry.samples import Sources
from router.telemetry.series import LABELS, AllSeries

MINE = ("m", "t", "f", "0")


def registry(series: AllSeries) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(Sources(series.samples))
    return made


def test_what_was_counted_is_shown_under_its_labels() -> None:
    series = AllSeries()
    ours, other = series.add(MINE), series.add(("other", "t", "f", "0"))
    for counted in (ours, ours, other):
        counted.requests += 1
    ours.running += 1
    ours.gaps.observe(0.5)
    assert (series.get(MINE), series.get(("new",)), len(series)) == (ours, None, 2)
    series.prompt_tokens += 70
    series.predicted_tokens += 64
    shown = registry(series)
    mine = dict(zip(LABELS, MINE, strict=True))
    assert shown.get_sample_value("llm_d_epp_request_total", mine) == 2
    assert shown.get_sample_value("llm_d_epp_request_running", mine) == 1
    gaps = "llm_d_epp_request_streaming_itl_seconds_count"
    assert shown.get_sample_value(gaps, mine) == 1
    assert shown.get_sample_value(gaps, {**mine, "model_name": "other"}) is None
    assert shown.get_sample_value("warmroute_prompt_tokens_total") == 70
    assert shown.get_sample_value("warmroute_predicted_cached_tokens_total") == 64


def test_histograms_read_like_those_of_the_library() -> None:
    series, own = AllSeries(), CollectorRegistry()
    library = {
        "size_bytes": Histogram("llm_d_epp_request_size_bytes", "", LABELS, buckets=buckets.BYTES),
        "duration_seconds": Histogram(
            "llm_d_epp_request_duration_seconds", "", LABELS, buckets=buckets.DURATION_S
        ),
    }
    for histogram in library.values():
        own.register(histogram)
    ours = series.add(MINE)
    for value in (0.005, 0.0051, 1.0, 300.0, 2.0**20, 2.0**40):
        ours.size.observe(value)
        ours.duration.observe(value)
        for histogram in library.values():
            histogram.labels(*MINE).observe(value)
    shown = set(generate_latest(registry(series)).decode().splitlines())
    for line in generate_latest(own).decode().splitlines():
        assert line in shown or line.startswith("#") or "_created" in line


def test_the_time_of_decisions_is_shown_before_there_is_one() -> None:
    name = "llm_d_epp_scheduler_e2e_duration_seconds_count"
    assert registry(AllSeries()).get_sample_value(name) == 0


def test_what_the_router_spends_itself_has_llm_d_s_buckets() -> None:
    series = AllSeries()
    series.request_work.observe(0.003)
    series.answer_work.observe(0.0002)
    shown = registry(series)
    for name, under, over in (("request", "0.002", "0.005"), ("response", "0.0001", "0.00025")):
        bucket = f"llm_d_epp_{name}_processing_duration_seconds_bucket"
        assert shown.get_sample_value(bucket, {"le": under}) == 0
        assert shown.get_sample_value(bucket, {"le": over}) == 1
    text = generate_latest(shown).decode()
    assert "without the time in which others were waited for" in text
