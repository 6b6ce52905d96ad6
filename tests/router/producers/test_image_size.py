"""Sizes of real image files, made by a library, and of what is none."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from router.producers.estimate_parameters import Resolution
from router.producers.image_size import of_data_url


def data_url(data: bytes) -> str:
    return f"data:image/any;base64,{base64.b64encode(data).decode()}"


def image(form: str, width: int, height: int, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, form, **options)
    return file.getvalue()


@pytest.mark.parametrize("size", [(1, 1), (640, 360), (13, 900)], ids=str)
@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG"])
def test_the_size_is_that_of_the_file(form: str, size: tuple[int, int]) -> None:
    assert of_data_url(data_url(image(form, *size))) == Resolution(*size)


def test_a_progressive_jpeg_with_much_before_its_frame_is_read() -> None:
    data = image("JPEG", 70, 50, progressive=True, icc_profile=b"x" * 150_000, comment=b"c" * 900)
    assert of_data_url(data_url(data)) == Resolution(70, 50)


def test_of_a_large_file_only_the_beginning_is_looked_at() -> None:
    assert of_data_url(data_url(image("PNG", 9, 8) + bytes(1_000_001))) == Resolution(9, 8)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://host/a.png",
        "data:text/plain;base64,aGk=",
        "data:image/png;base64,",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,\u4f60\u597d",
        "data:image/png,plain",
        data_url(b"no image"),
        data_url(image("PNG", 5, 5)[:20]),
        data_url(image("JPEG", 5, 5)[:30]),
        data_url(b"\xff\xd8\xff\xe0\x00"),
        data_url(b"\xff\xd8no marker"),
        data_url(b"\x89PNG\r\n\x1a\n" + bytes(16)),
    ],
    ids=range(13),
)
def test_what_is_no_image_has_no_size(url: str) -> None:
    assert of_data_url(url) is None


@given(st.sampled_from(["PNG", "GIF", "JPEG"]), st.data())
def test_no_bytes_are_too_odd(form: str, data: st.DataObject) -> None:
    start = image(form, 3, 3)[: data.draw(st.integers(2, 40))]
    of_data_url(data_url(start + data.draw(st.binary(max_size=60))))
