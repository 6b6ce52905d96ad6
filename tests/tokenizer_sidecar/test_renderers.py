"""Which renderer a directory gets, and what every renderer can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tokenizer_sidecar.disk import TINY, chat, write_model
from tokenizer_sidecar.errors import ModelError, Unsupported
from tokenizer_sidecar.post_processing import unpack
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.renderers import load


def test_a_hugging_face_directory_gets_templates_and_a_tokenizer() -> None:
    renderer = load(TINY)
    assert isinstance(renderer, Renderer)
    assert renderer.method == "tiktoken, in pieces"
    assert unpack(renderer.packed_chat(chat("Hello"))) == renderer.chat(chat("Hello"))
    ids, offsets = renderer.tokenize("Hello there", add_special_tokens=False)
    assert unpack(renderer.packed_completion({"prompt": "Hello there"})) == ids
    assert len(offsets) == 2 * len(ids)


def test_the_cache_has_the_size_asked_for() -> None:
    renderer = load(TINY, cache_bytes=0)
    renderer.packed_completion({"prompt": "Hello"})
    assert renderer.cache_stats().entries == 0
    assert renderer.cache_stats().new_tokens > 0


def test_a_model_without_a_template_has_completions_and_no_chats(tmp_path: Path) -> None:
    renderer = load(write_model(tmp_path, template=None))
    assert len(unpack(renderer.packed_completion({"prompt": "ab"}))) == 3
    with pytest.raises(Unsupported, match="no chat template"):
        renderer.packed_chat(chat("Hello"))


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError):
        load(tmp_path)
