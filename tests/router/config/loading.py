"""Configurations in few words."""

from __future__ import annotations

from typing import Any

import yaml

from router.config.load import Config, load

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def config(**fields: Any) -> Config:
    return load(yaml.safe_dump({**HEAD, **fields}, sort_keys=False))


def plugins(*types: str) -> list[dict[str, Any]]:
    return [{"type": type_} for type_ in types]


def profile(*refs: str, **weights: Any) -> list[dict[str, Any]]:
    members = [
        {"pluginRef": ref} | ({"weight": weights[ref]} if ref in weights else {}) for ref in refs
    ]
    return [{"name": "default", "plugins": members}]


PRECISE = "precise-prefix-cache-producer"


SCORER = "prefix-cache-scorer"


APPROX = "approx-prefix-cache-producer"


OLDER = "precise-prefix-cache-scorer"


NAMES_X = {"prefixMatchInfoProducerName": "x"}
