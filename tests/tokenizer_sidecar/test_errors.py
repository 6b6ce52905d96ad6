"""The tree of errors is what callers rely on to tell refusals from faults."""

from __future__ import annotations

from tokenizer_sidecar.errors import InvalidText, ModelError, RenderError, Unsupported


def test_bad_text_is_a_refusal_and_the_others_are_not() -> None:
    assert issubclass(InvalidText, RenderError)
    assert issubclass(RenderError, ValueError)
    assert not issubclass(Unsupported, RenderError)
    assert not issubclass(ModelError, ValueError)
