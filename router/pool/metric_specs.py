"""Where a figure stands on a metrics page, as configurations write it: ``name{label=value,…}``."""

from __future__ import annotations

import re

from router.pool.dialects import Family

_SPEC = re.compile(r"\s*([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s*", re.ASCII | re.DOTALL)
_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*(?:"([^"]*)"|([^,"{}]*?))\s*', re.ASCII)


def family(spec: str) -> Family:
    """Raises ValueError."""
    told = _SPEC.fullmatch(spec)
    if told is None:
        raise ValueError(f"expected a metric such as name or name{{label=value}}, got {spec!r}")
    where: dict[str, str] = {}
    for part in filter(str.strip, (told[2] or "").split(",")):
        label = _LABEL.fullmatch(part)
        if label is None:
            raise ValueError(f"expected label=value, got {part.strip()!r} in {spec!r}")
        where[label[1]] = label[3] if label[2] is None else label[2]
    return Family(told[1], where)
