"""Ids a tokenizer puts around every text: a BOS, or whatever its post-processor says."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import Part, TokenizerJson, steps

WORD_BYTES = 4
"""A packed id is a little-endian 32-bit number."""


def pack(ids: Iterable[int]) -> bytes:
    """Little-endian unsigned 32-bit numbers."""
    packed = array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack(packed: bytes) -> list[int]:
    """The inverse of `pack`."""
    ids = array("I", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tolist()


class Frame(msgspec.Struct, frozen=True):
    """
    Attributes:
        before: Packed ids in front of a text's own.
        behind: Packed ids behind them.
    """

    before: bytes = b""
    behind: bytes = b""

    @property
    def tokens(self) -> int:
        """How many ids it adds."""
        return (len(self.before) + len(self.behind)) // WORD_BYTES

    def around(self, ids: bytes) -> bytes:
        """The ids with those of the frame."""
        return self.before + ids + self.behind if self.before or self.behind else ids


def frame(json: TokenizerJson) -> Frame:
    """What the post-processor adds. Raises Unproven where that is not the same for every text."""
    found = [
        framed for framed in map(_frame, steps(json.post_processor, "processors")) if framed.tokens
    ]
    if len(found) > 1:
        raise Unproven("several steps of post-processing add ids")
    return found[0] if found else Frame()


def _frame(step: Part) -> Frame:
    match step:
        case {"type": "ByteLevel"}:  # moves offsets only
            return Frame()
        case {"type": "TemplateProcessing", "single": list(single), "special_tokens": dict(known)}:
            return _template(single, known)
        case {
            "type": "BertProcessing" | "RobertaProcessing",
            "sep": [str(), int(sep)],
            "cls": [str(), int(cls)],
        }:
            return Frame(pack([cls]), pack([sep]))
        case _:
            raise Unproven(f"post-processes by a step of type {step.get('type')}")


def _template(single: list[Any], known: Mapping[str, Any]) -> Frame:
    sides: list[list[int]] = [[]]
    for item in single:
        match item:
            case {"Sequence": {"id": "A"}}:
                sides.append([])
            case {"SpecialToken": {"id": str(name)}} if name in known:
                sides[-1] += known[name]["ids"]
            case _:
                raise Unproven("the post-processor's template has an unknown form")
    if len(sides) != 2:
        raise Unproven("the post-processor's template does not hold the text once")
    return Frame(pack(sides[0]), pack(sides[1]))
