from __future__ import annotations

import pytest

from router.config.placeholders import about
from router.config.schema import PluginEntry


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("${MODEL_NAME}", "${MODEL_NAME}"),
        ("tcp://$(POD_IP):5557", "$(POD_IP)"),
        ("{{ .Values.model }}", "{{ .Values.model }}"),
        ("http://<vllm-service>.<namespace>.svc:8000", "<vllm-service>"),
    ],
)
def test_a_word_that_nobody_filled_in_is_told_with_its_place(text: str, word: str) -> None:
    entry = PluginEntry(type="x", parameters={"a": {"b": [1, text]}})
    (note,) = about([PluginEntry(type="y"), entry])
    assert note.path == "$.plugins[1].parameters.a.b[1]"
    assert repr(word) in note.text


@pytest.mark.parametrize("text", ["", "Qwen/Qwen3-0.6B", "a<b", "a < b > c", "$HOME", "{x}"])
def test_other_text_is_no_such_word(text: str) -> None:
    assert list(about([PluginEntry(type="x", parameters={"a": text})])) == []
