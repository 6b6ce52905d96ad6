from __future__ import annotations

import random

from router.producers.facts import Facts
from router.scheduling.filters.decode import DecodeFilter
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.schedule import schedule
from router.scheduling.scorers.queue import QueueScorer
from router.scheduling.timed import timed
from router.scheduling.types import NamedFilter, NamedScorer, Profile
from tests.support import make


def test_decisions_stay_what_they_are_and_every_plugin_is_timed() -> None:
    profile = Profile(
        "default",
        (NamedFilter("decode", DecodeFilter()),),
        (NamedScorer("queue", QueueScorer(), 2.0),),
        MaxScorePicker(),
    )
    taken: list[tuple[str, str, float]] = []
    ticks = iter(range(100))
    same = timed(
        {"default": profile},
        lambda point, name: lambda seconds: taken.append((point, name, seconds)),
        lambda: float(next(ticks)),
        lambda picker: type(picker).__name__,
    )["default"]
    endpoints = [
        make.endpoint("a", waiting=1),
        make.endpoint("b", waiting=5),
        make.endpoint("c", labels={"llm-d.ai/role": "prefill"}),
    ]
    plain, told = (
        schedule(p, make.request(), endpoints, Facts(), random.Random(1)) for p in (profile, same)
    )
    assert told == plain
    assert told.dropped[0].why == DecodeFilter.why
    assert taken == [
        ("Filter", "decode", 1.0),
        ("Scorer", "queue", 1.0),
        ("Picker", "MaxScorePicker", 1.0),
    ]
