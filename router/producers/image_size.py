"""The size of an image inside a data URL, from the first bytes of its file."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable, Mapping

from router.producers.estimate_parameters import Resolution

_HEAD_CHARS = 256 * 1024
"""Of the file's base64 text so much is looked at: a JPEG may begin with a preview of itself."""

_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a segment."""

_OTHER_FRAMES = frozenset({0xC4, 0xC8, 0xCC})
"""JPEG markers among those of frames that are none: tables, and one kept for later."""


def of_data_url(url: str) -> Resolution | None:
    """Its pixels; None where it is no data URL of a PNG, GIF or JPEG file."""
    head, marker, payload = url[: _HEAD_CHARS + 64].partition("base64,")
    if not head.startswith("data:image/") or not marker:
        return None
    payload = payload[: len(payload) // 4 * 4]
    try:
        data = base64.b64decode(payload)
    except (binascii.Error, ValueError):
        return None
    read = next((read for magic, read in _READERS.items() if data.startswith(magic)), None)
    size = read(data) if read else None
    return Resolution(*size) if size and min(size) > 0 else None


def _png(data: bytes) -> tuple[int, int] | None:
    return _unpacked(">II", data, 16)


def _gif(data: bytes) -> tuple[int, int] | None:
    return _unpacked("<HH", data, 6)


def _jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in _OTHER_FRAMES:
            size = _unpacked(">HH", data, at + 5)
            return size and (size[1], size[0])
        at += 2
        if marker not in _NO_LENGTH:
            at += int.from_bytes(data[at : at + 2], "big")
    return None


def _unpacked(form: str, data: bytes, at: int) -> tuple[int, int] | None:
    if len(data) < at + struct.calcsize(form):
        return None
    first, second = struct.unpack_from(form, data, at)
    return first, second


_READERS: Mapping[bytes, Callable[[bytes], tuple[int, int] | None]] = {
    b"\x89PNG\r\n\x1a\n": _png,
    b"GIF87a": _gif,
    b"GIF89a": _gif,
    b"\xff\xd8": _jpeg,
}
"""First bytes of a file -> who reads its size."""
