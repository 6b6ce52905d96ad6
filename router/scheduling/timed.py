"""Profiles whose plugins are timed from outside: a plugin never knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.types import Filter, NamedFilter, NamedScorer, Picker, Profile, Scorer

FILTER, SCORER, PICKER = "Filter", "Scorer", "Picker"
"""llm-d's words for where a plugin is called."""

Observe = Callable[[float], None]
"""Takes seconds."""

Timer = Callable[[str, str], Observe]
"""Where it is called and a plugin's instance name -> who is told what it takes."""


def timed(
    profiles: Mapping[str, Profile],
    timer: Timer,
    clock: Callable[[], float],
    picker_name: Callable[[Picker], str],
) -> Mapping[str, Profile]:
    """The same profiles. `clock` gives seconds; `picker_name` says what a picker is called."""
    return {
        name: msgspec.structs.replace(
            profile,
            filters=tuple(
                NamedFilter(f.name, _TimedFilter(f.plugin, timer(FILTER, f.name), clock))
                for f in profile.filters
            ),
            scorers=tuple(
                NamedScorer(s.name, _TimedScorer(s.plugin, timer(SCORER, s.name), clock), s.weight)
                for s in profile.scorers
            ),
            picker=_TimedPicker(profile.picker, timer(PICKER, picker_name(profile.picker)), clock),
        )
        for name, profile in profiles.items()
    }


class _TimedFilter:
    def __init__(self, plugin: Filter, observe: Observe, clock: Callable[[], float]) -> None:
        self.by_load, self.why = plugin.by_load, plugin.why
        self.plugin = plugin
        self._observe = observe
        self._clock = clock

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        began = self._clock()
        kept = self.plugin.filter(request, endpoints, facts)
        self._observe(self._clock() - began)
        return kept


class _TimedScorer:
    def __init__(self, plugin: Scorer, observe: Observe, clock: Callable[[], float]) -> None:
        self.plugin = plugin
        self._observe = observe
        self._clock = clock

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        began = self._clock()
        scores = self.plugin.score(request, endpoints, facts)
        self._observe(self._clock() - began)
        return scores


class _TimedPicker:
    def __init__(self, plugin: Picker, observe: Observe, clock: Callable[[], float]) -> None:
        self.plugin = plugin
        self._observe = observe
        self._clock = clock

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        began = self._clock()
        picked = self.plugin.pick(endpoints, scores, rng)
        self._observe(self._clock() - began)
        return picked
