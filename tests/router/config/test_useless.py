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
