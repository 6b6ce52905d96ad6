"""Which template and special tokens a model directory names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer_sidecar.disk import write_config
from tokenizer_sidecar.errors import ModelError
from tokenizer_sidecar.model_files import read_templates


def named(directory: Path) -> dict[str, str]:
    return dict(read_templates(directory).named)


def test_the_configuration_names_one_template(tmp_path: Path) -> None:
    write_config(tmp_path, chat_template="A")
    assert named(tmp_path) == {"default": "A"}


def test_the_configuration_names_several(tmp_path: Path) -> None:
    several = [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]
    write_config(tmp_path, chat_template=several)
    assert named(tmp_path) == {"default": "A", "tool_use": "B"}


def test_a_template_file_wins_over_the_configuration(tmp_path: Path) -> None:
    write_config(tmp_path, chat_template="A")
    (tmp_path / "chat_template.jinja").write_text("ß", encoding="utf-8")
    assert named(tmp_path) == {"default": "ß"}


def test_further_templates_have_a_folder(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("A", encoding="utf-8")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("B", encoding="utf-8")
    assert named(tmp_path) == {"default": "A", "tool_use": "B"}


def test_a_processor_s_template_serves_requests_without_tools(tmp_path: Path) -> None:
    write_config(tmp_path, chat_template="A")
    (tmp_path / "chat_template.json").write_text('{"chat_template": "P"}', encoding="utf-8")
    assert named(tmp_path) == {"default": "P", "tool_use": "A"}


def test_a_model_without_templates_is_fine(tmp_path: Path) -> None:
    assert named(tmp_path) == {}


def test_special_tokens_come_as_text_or_as_objects(tmp_path: Path) -> None:
    write_config(tmp_path, bos_token="<s>", eos_token={"content": "</s>"}, unk_token=None)
    assert read_templates(tmp_path).special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}


def test_the_map_of_special_tokens_fills_what_the_configuration_leaves_out(tmp_path: Path) -> None:
    write_config(tmp_path, bos_token="<s>")
    text = json.dumps({"bos_token": "other", "pad_token": "<p>"})
    (tmp_path / "special_tokens_map.json").write_text(text, encoding="utf-8")
    assert read_templates(tmp_path).special_tokens == {"bos_token": "<s>", "pad_token": "<p>"}


@pytest.mark.parametrize("template", [5, {"a": 1}, [{"name": "default"}], ["A"]], ids=repr)
def test_a_template_of_another_form_is_an_error(tmp_path: Path, template: Any) -> None:
    write_config(tmp_path, chat_template=template)
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: chat_template"):
        read_templates(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"], ids=repr)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer_config\.json"):
        read_templates(tmp_path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such directory"):
        read_templates(tmp_path / "nowhere")
