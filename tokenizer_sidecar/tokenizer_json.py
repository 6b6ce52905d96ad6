"""The parts of a tokenizer.json that decide whether ids can be computed faster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tokenizer_sidecar.errors import Unproven

Part = Mapping[str, Any]
"""A step of the pipeline: its `type` and its settings."""


class AddedToken(msgspec.Struct, frozen=True):
    """A text that becomes one id before anything else is done.

    Attributes:
        normalized: Looked for in normalized text, where the others have left it.
    """

    content: str
    special: bool = False
    normalized: bool = True
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


class BpeModel(msgspec.Struct, frozen=True):
    """The model, as far as it is byte-pair encoding."""

    vocab: dict[str, int]
    merges: list[tuple[str, str] | str]
    type: str = "BPE"
    dropout: float | None = None
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False

    def pairs(self) -> list[tuple[str, str]]:
        """The merges in one form."""
        return [_pair(merge) if isinstance(merge, str) else merge for merge in self.merges]


class TokenizerJson(msgspec.Struct, frozen=True):
    """The file."""

    model: msgspec.Raw
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    post_processor: dict[str, Any] | None = None
    added_tokens: list[AddedToken] = []

    def bpe(self) -> BpeModel:
        """The model. Raises Unproven where it is not plain byte-pair encoding."""
        try:
            model = msgspec.json.decode(self.model, type=BpeModel)
        except msgspec.MsgspecError as error:
            raise Unproven(f"the model is not byte-pair encoding: {error}") from error
        if model.type != "BPE":
            raise Unproven(f"the model is {model.type}, not byte-pair encoding")
        if model.dropout or model.continuing_subword_prefix or model.end_of_word_suffix:
            raise Unproven("the model marks parts of words, or drops merges at random")
        return model


def read(content: bytes | str) -> TokenizerJson:
    """Read the file's content. Raises Unproven."""
    try:
        return msgspec.json.decode(content, type=TokenizerJson)
    except msgspec.MsgspecError as error:
        raise Unproven(f"tokenizer.json has an unknown form: {error}") from error


def steps(part: Part | None, inner: str) -> Sequence[Part]:
    """The part's steps: those of a Sequence, in its field `inner`, one by one."""
    return list(_steps(part, inner))


def _steps(part: Part | None, inner: str) -> Iterator[Part]:
    if part is None:
        return
    if part.get("type") != "Sequence":
        yield part
        return
    for step in part[inner]:
        yield from _steps(step, inner)


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
