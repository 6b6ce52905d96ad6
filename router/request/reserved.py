"""Fields that only the router, or a sidecar behind it, may send to an engine.

Those that hand caches over name an address which the engine connects to; incomplete, they make a
vLLM decode engine exit. vLLM's full report mode announces blocks a second time that it removes
only once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from router.errors import BadRequest

TRANSFER = (
    "kv_transfer_params",
    "ec_transfer_params",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
)
"""How caches are handed over: vLLM's connectors, then SGLang's."""

EXTRA, REPORT_MODE = "vllm_xargs", "kv_cache_report_mode"

_MARKS = (*(name.encode() for name in (*TRANSFER, REPORT_MODE)), b"\\u", b"\x00")
"""Without one of these no body holds such a field: they are its name, escapes, UTF-16 and -32."""


def refuse_reserved(fields: Mapping[str, Any], *, allow_transfer: bool) -> None:
    """Raises BadRequest."""
    if not allow_transfer:
        for name in TRANSFER:
            if fields.get(name) is not None:
                raise BadRequest(f"`{name}` may not be sent by clients")
    extra = fields.get(EXTRA)
    if isinstance(extra, dict) and REPORT_MODE in extra:
        raise BadRequest(f"`{EXTRA}.{REPORT_MODE}` may not be sent by clients")


def refuse_hidden(body: bytes, *, allow_transfer: bool) -> None:
    """Look for those fields in a body that no parser reads, as engines in Python would.

    They go by its first bytes for the encoding and take what is no JSON by the book (NaN).
    Raises BadRequest.
    """
    if not any(mark in body for mark in _MARKS):
        return
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        # No body of an engine that could read those fields.
        return
    if isinstance(fields, dict):
        refuse_reserved(fields, allow_transfer=allow_transfer)
