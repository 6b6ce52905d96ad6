from __future__ import annotations

import pytest

from router.producers.facts import Facts, Tokens
from router.scheduling.scorers.context_length_aware import ContextLengthAware
from tests.support import make

LABEL = "llm-d.ai/context-length-range"


def prompt(tokens: int) -> Facts:
    facts = make.facts()
    facts.put(Tokens(bytes(4 * tokens)))
    return facts


@pytest.mark.parametrize(
    ("label", "length", "score"),
    [
        # 0.3 + 0.7 * (0.7 / (1 + 2000/10000) + 0.3 * 1500/2000)
        pytest.param("0-2000", 500, 0.3 + 0.7 * (0.7 / 1.2 + 0.225), id="in-range"),
        # Width 10000: 0.3 + 0.7 * (0.35 + 0.3 * share left).
        pytest.param("0-10000", 0, 0.3 + 0.7 * 0.65, id="at-its-start"),
        pytest.param("0-10000", 10000, 0.3 + 0.7 * 0.35, id="at-its-end"),
        pytest.param("500-500", 500, 1.0, id="exactly"),
        pytest.param("0-1000", 2000, 0.15, id="above"),
        pytest.param("1000-2000", 500, 0.2, id="below"),
        pytest.param(None, 500, 0.5, id="no-label"),
        pytest.param("2000", 500, 0.0, id="no-range"),
        pytest.param("2000-0", 500, 0.0, id="backwards"),
        pytest.param("-1-2000", 500, 0.0, id="negative"),
        pytest.param("", 500, 0.0, id="empty"),
    ],
)
def test_ranges_that_fit_the_prompt_closely_score_higher(
    label: str | None, length: int, score: float
) -> None:
    endpoint = make.endpoint(labels={} if label is None else {LABEL: label})
    (scored,) = ContextLengthAware().score(make.request(), [endpoint], prompt(length))
    assert scored == pytest.approx(score)


ENDPOINTS = [
    make.endpoint("short", labels={LABEL: "0-1000"}),
    make.endpoint("long", labels={LABEL: "1000-9000"}),
    make.endpoint("any"),
    make.endpoint("odd", labels={LABEL: "some"}),
]


@pytest.mark.parametrize(
    ("length", "kept"),
    [(10, "short any"), (1000, "short long any"), (1001, "long any"), (9001, "any")],
)
def test_as_a_filter_it_keeps_what_fits(length: int, kept: str) -> None:
    plugin = ContextLengthAware(enable_filtering=True)
    left = plugin.filter(make.request(), ENDPOINTS, prompt(length))
    assert " ".join(endpoint.address for endpoint in left) == kept


def test_it_filters_only_if_told_so() -> None:
    assert ContextLengthAware().filter(make.request(), ENDPOINTS, prompt(10)) == ENDPOINTS


def test_where_the_length_is_not_known_all_are_alike() -> None:
    plugin = ContextLengthAware(enable_filtering=True)
    assert plugin.filter(make.request(), ENDPOINTS, make.facts()) == ENDPOINTS
    assert plugin.score(make.request(), ENDPOINTS, make.facts()) == [0.5] * 4
    assert plugin.needs() == ((Tokens, ""),)


def test_another_label_may_say_it() -> None:
    plugin = ContextLengthAware(label="fits")
    endpoint = make.endpoint(labels={"fits": "500-500"})
    assert plugin.score(make.request(), [endpoint], prompt(500)) == [1.0]
