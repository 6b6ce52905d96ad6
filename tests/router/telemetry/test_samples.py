from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from router.telemetry.samples import Buckets, Capped, Histogram, Sample, Sources, described


def page(*samples: Sample | Histogram) -> list[str]:
    registry, sources = CollectorRegistry(), Sources()
    registry.register(sources)
    sources.sources.append(lambda: samples)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_values_are_series_with_their_labels() -> None:
    gauge = Sample("g", "A gauge.", {("a",): 1.0, ("b",): 2.0}, ("kind",))
    counter = Sample("c", "A counter.", {(): 3.0}, counter=True)
    assert page(gauge, counter) == ['g{kind="a"} 1.0', 'g{kind="b"} 2.0', "c_total 3.0"]


def test_what_several_say_of_one_metric_is_put_together() -> None:
    first = Sample("g", "A gauge.", {("a",): 1.0}, ("kind",))
    second = Sample("g", "A gauge.", {("a",): 2.0, ("b",): 5.0}, ("kind",))
    assert page(first, second) == ['g{kind="a"} 3.0', 'g{kind="b"} 5.0']


def test_buckets_count_what_is_at_most_their_bound() -> None:
    kept = Buckets((1, 2))
    for value in (0.5, 1, 1.5, 9):
        kept.observe(value)
    assert kept.counts == [2, 1, 1]
    assert page(Histogram("h", "A histogram.", {(): kept})) == [
        'h_bucket{le="1"} 2.0',
        'h_bucket{le="2"} 3.0',
        'h_bucket{le="+Inf"} 4.0',
        "h_count 4.0",
        "h_sum 12.0",
    ]


def test_only_names_of_llm_d_are_marked() -> None:
    assert described("llm_d_epp_x", "Text.") == "[ALPHA] Text."
    assert described("warmroute_x", "Text.") == "Text."


def test_the_first_values_of_a_label_have_room_for_good() -> None:
    values = Capped(2)
    assert [values.take(value) for value in "abcab"] == [True, True, False, True, True]
