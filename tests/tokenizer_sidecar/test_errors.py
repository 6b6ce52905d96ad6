"""The tree of errors is what callers rely on to tell refusals from faults."""

from __future__ import annotations

import pytest

from tokenizer_sidecar.errors import (
    InvalidText,
    ModelError,
    Panic,
    RenderError,
    Unsupported,
    without_panics,
)


class PanicException(BaseException):
    pass


def test_bad_text_is_a_refusal_and_the_others_are_not() -> None:
    assert issubclass(InvalidText, RenderError)
    assert issubclass(RenderError, ValueError)
    assert not issubclass(Unsupported, RenderError)
    assert not issubclass(ModelError, ValueError)


def _raise(error: BaseException) -> object:
    raise error


def test_a_panic_becomes_an_error_and_nothing_else_does() -> None:
    assert without_panics(lambda: 7) == 7
    with pytest.raises(Panic, match="no entry found"):
        without_panics(lambda: _raise(PanicException("no entry\nfound")))
    for other in (KeyboardInterrupt(), RenderError("bad")):
        with pytest.raises(type(other)):
            without_panics(lambda other=other: _raise(other))  # type: ignore[misc]
