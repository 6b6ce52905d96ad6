"""What a configuration asks for that cannot have an effect, beside what test_load.py tells of."""

from __future__ import annotations

from typing import Any

import pytest

from router.config.notes import NoteKind
from tests.router.config.loading import APPROX, PRECISE, SCORER, config, plugins


def warnings_at(place: str, **fields: Any) -> list[str]:
    """What is warned of at a place of the file."""
    notes = config(**fields).notes
    return [n.text for n in notes if n.kind is NoteKind.WARNING and n.path == place]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"plugins": [{"type": "file-discovery", "parameters": {"path": "/x"}}]},
            "'file-discovery' finds no endpoints: dataLayer.discovery does not name it",
        ),
        (
            {
                "plugins": plugins("anthropic-parser"),
                "requestHandler": {
                    "parsers": [{"pluginRef": "openai-parser"}, {"pluginRef": "passthrough-parser"}]
                },
            },
            "'anthropic-parser' reads nothing: requestHandler.parsers does not list it",
        ),
        (
            {"plugins": plugins("models-data-source", "models-data-extractor")},
            "'models-data-source' is in no source: dataLayer.sources does not list it",
        ),
        (
            {"plugins": plugins("endpoint-notification-source")},
            "'endpoint-notification-source' is in no source: dataLayer.sources does not list it",
        ),
        (
            {"plugins": plugins(PRECISE, APPROX, SCORER)},
            f"nobody goes by the matches of '{PRECISE}', but by those of {APPROX}",
        ),
        (
            {
                "plugins": [
                    {"type": "prefix-based-pd-decider"},
                    {
                        "type": "disagg-profile-handler",
                        "parameters": {"deciders": {"prefill": "prefix-based-pd-decider"}},
                    },
                ],
                "schedulingProfiles": [{"name": "decode"}, {"name": "prefill"}],
            },
            "'prefix-based-pd-decider' always says no: nonCachedTokens is 0",
        ),
        (
            {"plugins": [{"type": "session-id-producer", "parameters": {"headerName": "x-s"}}]},
            "nobody reads what 'session-id-producer' states",
        ),
        (
            {"plugins": plugins("mm-embeddings-cache-producer")},
            "nobody reads what 'mm-embeddings-cache-producer' states",
        ),
    ],
    ids=[
        "discovery",
        "parser",
        "models",
        "notification",
        "matches",
        "decider",
        "sessions",
        "media",
    ],
)
def test_what_is_declared_and_does_nothing_is_warned_of(fields: dict[str, Any], said: str) -> None:
    assert said in warnings_at("$.plugins[0]", **fields)


def test_matches_that_somebody_goes_by_are_not_warned_of() -> None:
    names = {"prefixMatchInfoProducerName": PRECISE}
    inflight = {"type": "inflight-load-producer", "parameters": names}
    several = plugins(PRECISE, APPROX, SCORER)
    assert not any(
        "nobody goes by" in text
        for text in warnings_at("$.plugins[0]", plugins=[*several, inflight])
    )


def test_facts_that_somebody_reads_are_not_warned_of() -> None:
    sessions = {"type": "session-id-producer", "name": "user", "parameters": {"headerName": "x-s"}}
    source = {"attribute": "SessionID", "producer": "user"}
    affinity = {
        "type": "session-affinity-filter",
        "parameters": {"strategy": "session_id", "sessionIdConfig": {"sources": [source]}},
    }
    media = plugins("mm-embeddings-cache-producer", "mm-embeddings-cache-scorer")
    loaded = config(plugins=[sessions, affinity, *media])
    assert not any("nobody reads" in warning for warning in loaded.warnings)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("queue-scorer", "'queue-scorer' stands twice in this profile: its weights add up"),
        ("decode-filter", "'decode-filter' stands twice in this profile: once is enough"),
    ],
)
def test_a_plugin_that_stands_twice_in_a_profile_is_warned_of(kind: str, said: str) -> None:
    members = [{"pluginRef": kind}, {"pluginRef": kind}]
    fields = {
        "plugins": plugins(kind),
        "schedulingProfiles": [{"name": "default", "plugins": members}],
    }
    assert warnings_at("$.schedulingProfiles[0].plugins[1]", **fields) == [said]


@pytest.mark.parametrize("kind", ["metrics-data-source", "core-metrics-extractor"])
def test_a_second_source_or_extractor_of_metrics_is_warned_of(kind: str) -> None:
    two = [{"type": kind}, {"type": kind, "name": "second"}]
    assert warnings_at("$.plugins[1]", plugins=two) == [f"'second' is not used: {kind!r} is"]
    metrics = {"pluginRef": "metrics-data-source", "extractors": [{"pluginRef": "second"}]}
    extracting = {
        "plugins": [*plugins("metrics-data-source", "core-metrics-extractor"), two[1]],
        "dataLayer": {"sources": [metrics]},
    }
    if kind == "core-metrics-extractor":
        said = ["'core-metrics-extractor' is not used: 'second' is"]
        assert warnings_at("$.plugins[1]", **extracting) == said


@pytest.mark.parametrize("others", [[], ["queue-scorer"]], ids=["alone", "beside-another"])
def test_a_profile_whose_scorers_do_not_run_is_warned_of(others: list[str]) -> None:
    names = ["latency-scorer", *others]
    fields = {
        "plugins": plugins(*names),
        "schedulingProfiles": [{"name": "p", "plugins": [{"pluginRef": n} for n in names]}],
    }
    said = "no scorer of profile 'p' runs: every endpoint is as good as another"
    expected = [] if others else [said]
    assert warnings_at("$.schedulingProfiles[0]", **fields) == expected
