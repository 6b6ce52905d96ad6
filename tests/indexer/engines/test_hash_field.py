from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.engines.hash_field import number

TOP = (1 << 64) - 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(7, 7, id="number"),
        pytest.param(-1, TOP, id="signed"),
        pytest.param(b"\x01\x00", 256, id="short-bytes-are-big-endian"),
        pytest.param(b"\xff" * 24 + b"\x00" * 7 + b"\x05", 5, id="of-a-digest-the-last-eight"),
        pytest.param("12", 12, id="decimal"),
        pytest.param("0x12", 18, id="hexadecimal"),
        pytest.param("0XfF", 255, id="capitals"),
        pytest.param("ff", 255, id="hexadecimal-without-prefix"),
        pytest.param("ab" * 32, 0xABABABABABABABAB, id="of-a-long-text-the-last-64-bits"),
        pytest.param(str(TOP), TOP, id="largest"),
    ],
)
def test_every_spelling_is_one_number(value: object, expected: int) -> None:
    assert number(value) == expected


@pytest.mark.parametrize("value", [None, True, 1.5, "", b"", "0x", "xyz", "\u0661", [], "1" * 999])
def test_what_is_no_hash_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        number(value)


@given(st.integers(0, TOP))
def test_spellings_of_a_number_agree(value: int) -> None:
    assert {number(value), number(str(value)), number(hex(value))} == {value}
    assert number(value.to_bytes(8, "big")) == number(value - (TOP + 1)) == value
