from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from router.errors import NoEndpoints
from router.request.usage import Usage
from router.telemetry.decisions import Record
from router.telemetry.metrics import MAX_FAIRNESS_IDS, MAX_MODELS, MAX_SERIES, Metrics
from router.telemetry.samples import Sample


def record(**fields: Any) -> Record:
    return Record(**{"request_id": "r", "at": 1.0, "kind": "chat", "model": "m", **fields})


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


LABELS = {
    "model_name": "m",
    "target_model_name": "m",
    "fairness_id": "default-flow",
    "priority": "0",
}


def test_a_request_is_counted_from_the_pick_to_the_end() -> None:
    metrics = Metrics(lambda _: True)
    done = record(prompt_tokens=70, predicted_cached_tokens=64, took_ms=2.0)
    metrics.routed(done)
    done.status, done.duration_ms, done.usage = 200, 500.0, Usage(70, 5, 48)
    metrics.ended(done)
    assert value(metrics, "llm_d_epp_request_total", **LABELS) == 1
    assert value(metrics, "llm_d_epp_request_duration_seconds_sum", **LABELS) == 0.5
    assert value(metrics, "llm_d_epp_request_cached_tokens_sum", **LABELS) == 48
    assert value(metrics, "llm_d_epp_scheduler_e2e_duration_seconds_sum") == 0.002
    assert value(metrics, "warmroute_predicted_cached_tokens_total") == 64
    assert value(metrics, "warmroute_compared_cached_tokens_total") == 48
    assert value(metrics, "warmroute_compared_predicted_cached_tokens_total") == 64
    assert value(metrics, "llm_d_epp_request_error_total", **LABELS, error_code="HTTP200") is None


def test_what_the_router_spends_itself_is_counted_for_requests_and_for_answers() -> None:
    metrics = Metrics(lambda _: True)
    done = record(own_ms=2.0)
    metrics.routed(done)
    metrics.refused(record(own_ms=1.0), NoEndpoints("none"))
    metrics.refused(record(), NoEndpoints("not read at all"))
    metrics.ended(record(answer_ms=5.0))
    done.status, done.answer_ms = 200, 3.0
    metrics.ended(done)
    request, answer = (
        f"llm_d_epp_{name}_processing_duration_seconds" for name in ("request", "response")
    )
    assert value(metrics, f"{request}_sum") == pytest.approx(0.003)
    assert value(metrics, f"{request}_count") == 2
    assert (value(metrics, f"{answer}_sum"), value(metrics, f"{answer}_count")) == (0.003, 1)


def test_of_several_prompts_the_engine_counts_all_so_nothing_is_compared() -> None:
    metrics = Metrics(lambda _: True)
    done = record(prompts=2, prompt_tokens=70, predicted_cached_tokens=64)
    done.status, done.duration_ms, done.usage = 200, 500.0, Usage(140, 5, 0)
    metrics.routed(done)
    metrics.ended(done)
    assert done.reported_cached_tokens is None
    assert value(metrics, "llm_d_epp_request_cached_tokens_count", **LABELS) == 1
    assert value(metrics, "warmroute_compared_predicted_cached_tokens_total") == 0


def test_errors_are_counted_by_what_they_were() -> None:
    metrics = Metrics(lambda _: True)
    metrics.refused(record(), NoEndpoints("none"))
    metrics.ended(record(status=503))
    metrics.ended(record())
    for code in ("ServiceUnavailable", "HTTP503", "Abandoned"):
        assert value(metrics, "llm_d_epp_request_error_total", **LABELS, error_code=code) == 1


def test_unparsed_requests_and_unreadable_usage_are_counted() -> None:
    metrics = Metrics(lambda _: True)
    metrics.routed(record(kind="other"))
    metrics.ended(record(usage_unreadable=True))
    assert value(metrics, "warmroute_unparsed_requests_total") == 1
    assert value(metrics, "warmroute_unreadable_usage_total") == 1


def test_only_names_that_are_served_become_label_values() -> None:
    metrics = Metrics({"m"}.__contains__)
    for i in range(50):
        metrics.routed(record(model=f"invented-{i}"))
    metrics.routed(record())
    other = {**LABELS, "model_name": "other", "target_model_name": "other"}
    assert value(metrics, "llm_d_epp_request_total", **other) == 50
    assert value(metrics, "llm_d_epp_request_total", **LABELS) == 1


@pytest.mark.parametrize("first", [True, False], ids=["unloaded", "loaded"])
def test_a_request_ends_under_the_names_it_began_with(first: bool) -> None:
    served = {"m"} if first else set()
    metrics = Metrics(lambda name: name in served)
    done = record(status=200, duration_ms=1.0)
    metrics.routed(done)
    served ^= {"m"}
    metrics.ended(done)
    name = "m" if first else "other"
    labels = {**LABELS, "model_name": name, "target_model_name": name}
    assert value(metrics, "llm_d_epp_request_running", **labels) == 0
    assert value(metrics, "llm_d_epp_request_duration_seconds_count", **labels) == 1


def test_models_that_come_and_go_are_bounded() -> None:
    metrics = Metrics(lambda _: True)
    for number in range(MAX_MODELS + 5):
        name = f"adapter-{number % (MAX_MODELS + 4)}"
        metrics.routed(record(model=name, target_model=name))
    first = {**LABELS, "model_name": "adapter-0", "target_model_name": "adapter-0"}
    others = {**LABELS, "model_name": "other", "target_model_name": "other"}
    assert value(metrics, "llm_d_epp_request_total", **first) == 2
    assert value(metrics, "llm_d_epp_request_total", **others) == 4


def test_what_others_count_is_asked_for_when_the_page_is() -> None:
    metrics = Metrics(lambda _: True)
    counted: dict[tuple[str, ...], float] = {("a",): 1.0}
    metrics.watch(lambda: [Sample("warmroute_things", "Some.", counted, ("kind",), True)])
    counted["b",] = 2.0
    assert value(metrics, "warmroute_things_total", kind="b") == 2


def test_the_page_parses_whatever_a_model_is_called() -> None:
    metrics = Metrics(lambda _: True)
    metrics.routed(record(model='a"b\\c\n\N{GRINNING FACE}'))
    families = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    names = {s.labels.get("model_name") for f in families for s in f.samples}
    assert 'a"b\\c\n\N{GRINNING FACE}' in names


def test_rewrites_are_counted_by_who_wanted_them() -> None:
    metrics = Metrics(lambda name: name in ("m", "t"))
    metrics.routed(record(target_model="t", rewritten_by="header"))
    metrics.routed(record(model="invented", target_model="t", rewritten_by="header"))
    for model in ("m", "other"):
        labels = {"model_rewrite_name": "header", "model_name": model, "target_model": "t"}
        assert value(metrics, "llm_d_epp_model_rewrite_decisions_total", **labels) == 1
    labels = {**LABELS, "target_model_name": "t"}
    assert value(metrics, "llm_d_epp_request_total", **labels) == 1


def test_stages_are_counted_by_what_was_decided_and_by_who_was_missing() -> None:
    metrics = Metrics(lambda _: True)
    metrics.routed(record(stages="prefill-decode"))
    metrics.routed(record())
    missing = NoEndpoints("none")
    missing.stage = "prefill"
    metrics.refused(record(), missing)
    name = "llm_d_epp_disagg_decision_total"
    assert value(metrics, name, model_name="m", decision_type="prefill-decode") == 1
    assert value(metrics, name, model_name="m", decision_type="no-prefill") == 1
    assert value(metrics, name, model_name="m", decision_type="") is None


def test_prefills_are_counted_by_what_became_of_them() -> None:
    metrics = Metrics(lambda _: True)
    for result in ("ok", "failed", "ok", None):
        metrics.ended(record(status=200, prefill_result=result))
    assert value(metrics, "warmroute_prefill_results_total", result="ok") == 2
    assert value(metrics, "warmroute_prefill_results_total", result="failed") == 1


def test_requests_between_pick_and_end_are_running() -> None:
    metrics = Metrics(lambda _: True)
    first, second = record(), record(request_bytes=100)
    metrics.routed(first)
    metrics.routed(second)
    assert value(metrics, "llm_d_epp_request_running", **LABELS) == 2
    second.response_bytes = 50
    metrics.ended(first)
    metrics.ended(second)
    assert value(metrics, "llm_d_epp_request_running", **LABELS) == 0
    assert value(metrics, "llm_d_epp_request_size_bytes_sum", **LABELS) == 100
    assert value(metrics, "llm_d_epp_response_size_bytes_sum", **LABELS) == 50


def test_accounts_and_priorities_are_labels_up_to_a_bound() -> None:
    metrics = Metrics(lambda _: True)
    for number in range(MAX_FAIRNESS_IDS + 5):
        metrics.routed(record(fairness_id=f"tenant-{number}", priority=-1))
    mine = {**LABELS, "fairness_id": "tenant-0", "priority": "-1"}
    assert value(metrics, "llm_d_epp_request_total", **mine) == 1
    others = {**mine, "fairness_id": "other"}
    assert value(metrics, "llm_d_epp_request_total", **others) == 5


def test_accounts_do_not_multiply_with_models() -> None:
    metrics = Metrics(lambda _: True)
    for model in range(5):
        for number in range(MAX_FAIRNESS_IDS):
            metrics.routed(record(model=f"m{model}", fairness_id=f"tenant-{number}"))
        metrics.routed(record(model=f"m{model}"))
    counted = [
        sample.labels
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "llm_d_epp_request_total"
    ]
    assert len(counted) <= MAX_SERIES + 2 * 5
    last = {**LABELS, "model_name": "m4", "target_model_name": "m4"}
    assert value(metrics, "llm_d_epp_request_total", **last) == 1
    others = {**last, "fairness_id": "other"}
    assert value(metrics, "llm_d_epp_request_total", **others) == MAX_FAIRNESS_IDS


def test_what_others_count_is_asked_for_before_a_thread_reads_the_page() -> None:
    metrics, asked = Metrics(lambda _: True), list[int]()

    def source() -> Iterator[Sample]:
        asked.append(threading.get_ident())
        yield Sample("warmroute_things", "Things.", {(): 3.0})

    metrics.watch(source)
    page, read = metrics.published, list[bytes]()
    reader = threading.Thread(target=lambda: read.append(generate_latest(page)))
    reader.start()
    reader.join()
    assert b"warmroute_things 3.0\n" in read[0]
    assert b"llm_d_epp_scheduler_e2e_duration_seconds_count" in read[0]
    assert asked == [threading.get_ident()]


def test_metrics_of_llm_d_say_that_they_may_change() -> None:
    metrics = Metrics(lambda _: True)
    metrics.routed(record())
    families = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    unmarked = [
        f.name
        for f in families
        if f.name.startswith("llm_d_epp_")
        and not f.name.endswith("_created")
        and not f.documentation.startswith("[ALPHA] ")
    ]
    assert unmarked == []
