"""Content codings: a packed body, unpacked up to a cap."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import zstandard

from router.errors import BadRequest, BodyTooLarge

_WINDOW_BYTES = 8 * 1024 * 1024
"""Largest window of zstd that HTTP allows (RFC 9659)."""

_GZIP = 16 + zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS


def codings(content_encoding: str) -> tuple[str, ...]:
    """The codings that were applied, in order; ``identity`` is none."""
    if not content_encoding:
        return ()
    named = (name.strip().lower() for name in content_encoding.split(","))
    return tuple(name for name in named if name not in ("", "identity"))


def readable(applied: tuple[str, ...]) -> bool:
    """Whether `unpack` knows them. A body packed twice is nothing that clients send."""
    return not applied or (len(applied) == 1 and applied[0] in _UNPACK)


def unpack(coding: str, body: bytes, max_bytes: int) -> bytes:
    """Raises BadRequest for what is no such coding, BodyTooLarge above `max_bytes` unpacked."""
    try:
        return _UNPACK[coding](body, max_bytes)
    except (zlib.error, zstandard.ZstdError) as error:
        raise BadRequest(f"cannot unpack the request body: {error}") from error


def _gzip(body: bytes, max_bytes: int) -> bytes:
    """One member after the other, as the format allows."""
    parts = []
    left = max_bytes
    while body:
        unpacked, body = _inflate(body, left, _GZIP)
        left -= len(unpacked)
        parts.append(unpacked)
    return b"".join(parts)


def _deflate(body: bytes, max_bytes: int) -> bytes:
    """With zlib's header, as the standard says, or without it, as many clients do."""
    try:
        return _inflate(body, max_bytes, zlib.MAX_WBITS)[0]
    except zlib.error:
        return _inflate(body, max_bytes, _RAW)[0]


def _zstd(body: bytes, max_bytes: int) -> bytes:
    """One frame after the other. One that ends too early unpacks to a text that does."""
    unpacking = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    with unpacking.stream_reader(body, read_across_frames=True) as reader:
        unpacked = reader.read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    return unpacked


def _inflate(body: bytes, max_bytes: int, wbits: int) -> tuple[bytes, bytes]:
    """What was packed, and what comes after it."""
    inflating = zlib.decompressobj(wbits)
    unpacked = inflating.decompress(body, max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    if not inflating.eof:
        raise BadRequest("cannot unpack the request body: it ends too early")
    return unpacked, inflating.unused_data


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body unpacks to more than {max_bytes} bytes")


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
