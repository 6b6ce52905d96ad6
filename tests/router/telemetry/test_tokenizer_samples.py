from __future__ import annotations

from router.producers.tokens import Missing
from router.telemetry.samples import Histogram
from router.telemetry.tokenizer_samples import samples
from tests.router.telemetry.doctor.ward import Backend


def test_where_there_is_no_tokenizer_nothing_is_told() -> None:
    assert list(samples([])) == []


def test_those_of_several_tokenizers_are_added_up() -> None:
    first, second = Backend(), Backend()
    first.stats.took(0.01)
    second.stats.took(0.3)
    for backend in (first, second):
        backend.stats.tokenized = 3
        backend.stats.missing[Missing.BUSY] = 1
    told = {sample.name: sample for sample in samples([first, second])}
    assert told["warmroute_tokenized_requests"].values == {(): 6}
    assert told["warmroute_untokenized_requests"].values == {("busy",): 2}
    waits = told["warmroute_tokenizer_wait_seconds"]
    assert isinstance(waits, Histogram)
    assert sum(waits.values[()].counts) == 2
    assert waits.values[()].total == 0.31
