"""Durations as Go writes them: ``2s``, ``400ms``, ``1m30s``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from router.config.errors import ConfigError

_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds(text: str, path: str) -> float:
    """Raises ConfigError naming `path`."""
    if text == "0":
        return 0.0
    if not _WHOLE.fullmatch(text):
        raise ConfigError(f"expected a duration such as 2s or 400ms, got {text!r} - at `{path}`")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
