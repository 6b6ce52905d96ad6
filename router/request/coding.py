"""Content codings: a packed body, unpacked up to a cap."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import zstandard

from router.errors import BadRequest, BodyTooLarge

MAX_MEMBERS = 4096
"""Of one gzip body: clients send one, and tools that pack in blocks one for each 64 KiB or more."""

PIECE_BYTES = 64 * 1024

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


class _Unpacking:
    """
    Attributes:
        parts: What has come out so far.
    """

    def __init__(self, body: bytes, max_bytes: int) -> None:
        self.parts: list[bytes] = []
        self._body = body
        self._max_bytes = max_bytes
        self._left = max_bytes

    def member(self, start: int, wbits: int) -> int:
        """Unpack what begins there. Where it ends."""
        inflating, end = zlib.decompressobj(wbits), start
        while not inflating.eof:
            # In pieces, since whatever follows the member's end in one is copied.
            piece = self._body[end : end + PIECE_BYTES]
            if not piece:
                raise BadRequest("cannot unpack the request body: it ends too early")
            unpacked = inflating.decompress(piece, self._left + 1)
            end += len(piece)
            self._left -= len(unpacked)
            if self._left < 0:
                raise _too_large(self._max_bytes)
            self.parts.append(unpacked)
        return end - len(inflating.unused_data)


def _gzip(body: bytes, max_bytes: int) -> bytes:
    """One member after the other, as the format allows."""
    unpacking, end = _Unpacking(body, max_bytes), 0
    for _ in range(MAX_MEMBERS):
        if end < len(body):
            end = unpacking.member(end, _GZIP)
    if end < len(body):
        raise BadRequest(f"cannot unpack the request body: more than {MAX_MEMBERS} members")
    return b"".join(unpacking.parts)


def _deflate(body: bytes, max_bytes: int) -> bytes:
    """With zlib's header, as the standard says, or without it, as many clients do."""
    try:
        unpacking = _Unpacking(body, max_bytes)
        unpacking.member(0, zlib.MAX_WBITS)
    except zlib.error:
        unpacking = _Unpacking(body, max_bytes)
        unpacking.member(0, _RAW)
    return b"".join(unpacking.parts)


def _zstd(body: bytes, max_bytes: int) -> bytes:
    """One frame after the other. One that ends too early unpacks to a text that does."""
    unpacking = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    with unpacking.stream_reader(body, read_across_frames=True) as reader:
        unpacked = reader.read(max_bytes + 1)
    if len(unpacked) > max_bytes:
        raise _too_large(max_bytes)
    return unpacked


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"the request body unpacks to more than {max_bytes} bytes")


_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
