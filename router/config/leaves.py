"""Leaves: what a file holds that has no parts, with the path of each."""

from __future__ import annotations

from collections.abc import Iterator


def leaves(data: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Everything in plain data that has no parts, and its path."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, f"{path}.{key}")
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from leaves(value, f"{path}[{i}]")
    else:
        yield path, data
