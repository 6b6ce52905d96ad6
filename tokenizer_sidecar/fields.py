"""Typed reading of single fields of a request's body. Each raises RenderError on a wrong type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizer_sidecar.errors import RenderError

Body = Mapping[str, Any]


def flag(body: Body, name: str, *, default: bool) -> bool:
    """A boolean, or the default where the field is missing."""
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise RenderError(f"{name} must be true or false")
    return value


def mapping(body: Body, name: str) -> Mapping[str, Any]:
    """An object, empty where the field is missing or null."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RenderError(f"{name} must be an object")
    return value


def count(body: Body, name: str) -> int | None:
    """A whole number, -1 or more, or None where the field is missing or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < -1:
        raise RenderError(f"{name} must be -1 or more")
    return value
