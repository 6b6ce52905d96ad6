"""Amounts as Kubernetes writes them: ``5000``, ``1G``, ``512Mi``, ``1e3``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal

_UNITS: Mapping[str, Decimal] = {
    "": Decimal(1),
    **{suffix: Decimal(1000) ** -power for power, suffix in enumerate(("m", "u", "n"), 1)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_WHOLE = re.compile(r"(\d{1,18}(?:\.\d{0,9})?)(?:[eE]\+?(\d{1,2})|([A-Za-z]{0,2}))", re.ASCII)


def quantity(given: float | str, name: str) -> int:
    """The amount, rounded up as Kubernetes does. Raises ValueError that names the field `name`."""
    text = str(given).strip()
    if text.startswith("-"):
        raise ValueError(f"{name} must be non-negative, got {given!r} - at `{name}`")
    told = _WHOLE.fullmatch(text)
    if told is None or (told[3] or "") not in _UNITS:
        raise ValueError(
            f"{name} must be an amount such as 5000 or 1Gi, got {given!r} - at `{name}`"
        )
    value = Decimal(told[1]) * _UNITS[told[3] or ""] * Decimal(10) ** int(told[2] or 0)
    return math.ceil(value)
