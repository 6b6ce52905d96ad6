"""Fields that only the router, or a sidecar behind it, may send to an engine.

Those that hand caches over name an address which the engine connects to; incomplete, they make a
vLLM decode engine exit. vLLM's full report mode announces blocks a second time that it removes
only once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

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

MAX_ODD_BYTES = 1024 * 1024
"""Largest body that is read although it is no JSON by the book."""

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


class _Reserved(msgspec.Struct):
    """Decoding it passes over everything else without making anything of it."""

    kv_transfer_params: Any = None
    ec_transfer_params: Any = None
    bootstrap_host: Any = None
    bootstrap_port: Any = None
    bootstrap_room: Any = None
    vllm_xargs: Any = None


_reserved = msgspec.json.Decoder(_Reserved)


def refuse_hidden(body: bytes, *, allow_transfer: bool) -> None:
    """Look for those fields in a body that no parser reads. Raises BadRequest."""
    if not any(mark in body for mark in _MARKS):
        return
    refuse_reserved(_fields_of(body), allow_transfer=allow_transfer)


def _fields_of(body: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.structs.asdict(_reserved.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _as_python(body)


def _as_python(body: bytes) -> Mapping[str, Any]:
    """What an engine in Python reads: it goes by the first bytes for the encoding, and takes NaN.

    Nothing where it could not read the body. Raises BadRequest for one that is too large to be
    taken apart for this.
    """
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
    except UnicodeDecodeError:
        return {}
    if not text.lstrip(" \t\r\n").startswith("{"):
        return {}
    if len(body) > MAX_ODD_BYTES:
        raise BadRequest("cannot read the request body: it is no JSON in UTF-8")
    try:
        fields: Mapping[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return fields
