"""A hash as engines, pools and clients spell it: number, bytes, hexadecimal or decimal text."""

from __future__ import annotations

_U64 = (1 << 64) - 1
_BYTES = 8
_MAX_DIGITS = 256
"""Of a text; the digests in use have 64."""


def number(value: object) -> int:
    """The unsigned 64-bit number that a hash is known by: of a longer one its last 64 bits.

    Raises ValueError for what is no hash.
    """
    match value:
        case bool():
            raise ValueError(f"not a hash: {value!r}")
        case int():
            return value & _U64
        case bytes() if value:
            return int.from_bytes(value[-_BYTES:], "big")
        case str() if value.isascii() and len(value) <= _MAX_DIGITS:
            digits = value.removeprefix("0x").removeprefix("0X")
            base = 10 if digits == value and value.isdigit() else 16
            return int(digits, base) & _U64
        case _:
            raise ValueError(f"not a hash: {value!r}"[:80])
