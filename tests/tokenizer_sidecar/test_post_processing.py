"""What a post-processor puts around a text."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, processors

from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.post_processing import Frame, frame, pack, unpack
from tokenizer_sidecar.tokenizer_json import read

BOS, EOS = ("<s>", 1), ("</s>", 2)
TEMPLATE = processors.TemplateProcessing(single="<s> $A </s> </s>", special_tokens=[BOS, EOS])
KNOWN = {
    "none": None,
    "offsets only": processors.ByteLevel(),
    "a template": TEMPLATE,
    "two": processors.Sequence([processors.ByteLevel(), TEMPLATE]),
    "bert": processors.BertProcessing(EOS, BOS),
    "roberta": processors.RobertaProcessing(EOS, BOS),
}


def tokenizer(post_processor: processors.PostProcessor | None) -> Tokenizer:
    made = Tokenizer(models.BPE({"a": 0, "<s>": 1, "</s>": 2}, []))
    if post_processor is not None:
        made.post_processor = post_processor
    return made


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_packed_ids_are_little_endian_words(ids: list[int]) -> None:
    assert pack(ids) == struct.pack(f"<{len(ids)}I", *ids)
    assert unpack(pack(ids)) == ids


@pytest.mark.parametrize("name", KNOWN)
def test_the_frame_is_what_the_library_adds(name: str) -> None:
    made = tokenizer(KNOWN[name])
    found = frame(read(made.to_str()))
    assert found.around(pack([0])) == pack(made.encode("a").ids)
    assert found.tokens == len(made.encode("a").ids) - 1


def test_no_frame_is_no_work() -> None:
    ids = pack([1, 2, 3])
    assert Frame().around(ids) is ids


UNKNOWN = {
    "text twice": {"single": "$A <s> $A"},
    "no text": {"single": "<s>"},
}


@pytest.mark.parametrize("template", UNKNOWN.values(), ids=UNKNOWN.keys())
def test_other_templates_are_not_taken_for_frames(template: dict[str, str]) -> None:
    made = tokenizer(processors.TemplateProcessing(**template, special_tokens=[BOS]))
    with pytest.raises(Unproven):
        frame(read(made.to_str()))


def test_other_steps_are_not_taken_for_frames() -> None:
    file = {"model": {}, "post_processor": {"type": "Surprise"}}
    with pytest.raises(Unproven, match="Surprise"):
        frame(read(msgspec.json.encode(file)))


def test_two_steps_that_add_ids_are_not_taken_for_a_frame() -> None:
    made = tokenizer(processors.Sequence([TEMPLATE, TEMPLATE]))
    with pytest.raises(Unproven):
        frame(read(made.to_str()))
