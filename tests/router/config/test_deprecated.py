from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect
import pytest

from router import catalog
from router.config import deprecated
from router.config.decode import decode
from router.config.notes import NoteKind
from router.config.schema import EndpointPickerConfig

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def written(**fields: Any) -> EndpointPickerConfig:
    return decode(HEAD | fields)


def told(**fields: Any) -> list[tuple[NoteKind, str]]:
    _, notes = deprecated.rewritten(written(**fields))
    return [(note.kind, note.path) for note in notes]


def test_an_older_type_gets_its_present_name_and_keeps_its_own() -> None:
    file, notes = deprecated.rewritten(
        written(plugins=[{"type": "tokenizer"}, {"type": "by-label-selector", "name": "mine"}])
    )
    assert [(p.type, p.name) for p in file.plugins] == [
        ("token-producer", "tokenizer"),
        ("label-selector-filter", "mine"),
    ]
    assert [str(note) for note in notes] == [
        "tokenizer is now token-producer - at `$.plugins[0].type`",
        "by-label-selector is now label-selector-filter - at `$.plugins[1].type`",
    ]


def test_the_limit_of_an_older_filter_becomes_a_condition() -> None:
    parameters = {"maxRequests": 10, "fallbackOnEmpty": True}
    file, _ = deprecated.rewritten(
        written(plugins=[{"type": "active-request-filter", "parameters": parameters}])
    )
    assert msgspec.to_builtins(file.plugins[0]) == {
        "type": "utilization-filter",
        "name": "active-request-filter",
        "parameters": {
            "conditions": [{"metric": "active-requests", "maxValue": 10}],
            "fallbackOnEmpty": True,
        },
    }


def test_older_words_are_told() -> None:
    parameters = {"tokenProcessorConfig": {"blockSize": 64, "hashSeed": "42"}}
    precise = {"type": "precise-prefix-cache-producer", "parameters": parameters}
    place = "$.plugins[0].parameters.tokenProcessorConfig"
    assert told(
        apiVersion="inference.networking.x-k8s.io/v1alpha1",
        plugins=[precise, {"type": "pd-profile-handler"}],
        parser={"pluginRef": "openai-parser"},
        saturationDetector={"pluginRef": "d"},
    ) == [
        (NoteKind.DEPRECATED, "$.apiVersion"),
        (NoteKind.DEPRECATED, "$.saturationDetector"),
        (NoteKind.DEPRECATED, "$.parser"),
        (NoteKind.DEPRECATED, f"{place}.blockSize"),
        (NoteKind.NO_EFFECT, f"{place}.hashSeed"),
        (NoteKind.DEPRECATED, "$.plugins[1].type"),
    ]


def test_what_is_up_to_date_is_not_told() -> None:
    assert told(plugins=[{"type": "queue-scorer"}]) == []


def test_the_older_places_of_detector_and_parser_count_where_the_new_ones_are_empty() -> None:
    older: dict[str, Any] = {
        "parser": {"pluginRef": "older"},
        "saturationDetector": {"pluginRef": "older"},
    }
    newer: dict[str, Any] = {
        "requestHandler": {"parsers": [{"pluginRef": "a"}, {"pluginRef": "b"}]},
        "flowControl": {"saturationDetector": {"pluginRef": "newer"}},
    }
    file = written(**older)
    assert [(r.plugin_ref, path) for r, path in deprecated.parsers(file)] == [("older", "$.parser")]
    named = deprecated.detector(file)
    assert named is not None
    assert (named[0].plugin_ref, named[1]) == ("older", "$.saturationDetector")
    file = written(**older, **newer)
    assert [path for _, path in deprecated.parsers(file)] == [
        "$.requestHandler.parsers[0]",
        "$.requestHandler.parsers[1]",
    ]
    named = deprecated.detector(file)
    assert named is not None
    assert named[1] == "$.flowControl.saturationDetector"
    assert deprecated.detector(written()) is None
    assert (NoteKind.NO_EFFECT, "$.parser") in told(**older, **newer)


_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_NONE = re.compile("has no effect", re.IGNORECASE)


def documented(kind: msgspec.inspect.Type, prefix: str = "") -> Iterator[str]:
    """Dotted parameters whose description says that they have no effect."""
    if isinstance(kind, msgspec.inspect.UnionType):
        for each in kind.types:
            yield from documented(each, prefix)
    if not isinstance(kind, msgspec.inspect.StructType):
        return
    described = (inspect.cleandoc(cls.__dict__.get("__doc__") or "") for cls in kind.cls.__mro__)
    said = dict(entry for text in described for entry in _ENTRY.findall(text))
    for field in kind.fields:
        name = f"{prefix}{field.encode_name}"
        whole = str(getattr(getattr(field.type, "cls", None), "__doc__", ""))
        if whole.startswith("Has no effect") or _NONE.search(said.get(field.name, "")):
            yield name
        else:
            yield from documented(field.type, f"{name}.")


@pytest.mark.parametrize("plugin", sorted(catalog.ALL))
def test_every_parameter_without_effect_is_told_by_whoever_writes_it(plugin: str) -> None:
    listed = {name for kind, name in deprecated.NO_EFFECT if kind == plugin}
    assert listed == set(documented(msgspec.inspect.type_info(catalog.ALL[plugin])))
