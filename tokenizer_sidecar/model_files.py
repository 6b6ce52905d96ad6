"""What a model directory says beside the tokenizer: its chat templates and special tokens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tokenizer_sidecar.errors import ModelError

DEFAULT = "default"
TOOL_USE = "tool_use"
"""The template for requests with tools, where a model has several."""

_SPECIAL_TOKENS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class TemplateSources(msgspec.Struct, frozen=True):
    """
    Attributes:
        named: Template text by name.
        special_tokens: Variable name, like bos_token, to text.
    """

    named: Mapping[str, str]
    special_tokens: Mapping[str, str]


def read_templates(directory: Path) -> TemplateSources:
    """Read what Hugging Face reads, with its precedence. Raises ModelError."""
    if not directory.is_dir():
        raise ModelError(f"{directory}: no such directory")
    config = _read_object(directory / "tokenizer_config.json")
    tokens = _special_tokens(_read_object(directory / "special_tokens_map.json") | config)
    return TemplateSources(named=_templates(directory, config), special_tokens=tokens)


def _templates(directory: Path, config: Mapping[str, Any]) -> dict[str, str]:
    # chat_template.json is a processor's file; a template file beside it replaces it, and for a
    # request with tools the tokenizer's own template comes first.
    processor = _read_object(directory / "chat_template.json").get("chat_template")
    named = _configured(directory / "tokenizer_config.json", config.get("chat_template"))
    if isinstance(processor, str):
        if DEFAULT in named:
            named.setdefault(TOOL_USE, named[DEFAULT])
        named[DEFAULT] = processor
    files = {DEFAULT: directory / "chat_template.jinja"}
    files |= {path.stem: path for path in (directory / "additional_chat_templates").glob("*.jinja")}
    found = {name: _read_text(path) for name, path in files.items() if path.is_file()}
    return found or named


def _configured(path: Path, given: Any) -> dict[str, str]:
    match given:
        case None:
            return {}
        case str():
            return {DEFAULT: given}
        case list() if all(_is_named_template(item) for item in given):
            return {item["name"]: item["template"] for item in given}
        case _:
            raise ModelError(f"{path}: chat_template is neither text nor a list of named templates")


def _is_named_template(item: Any) -> bool:
    return isinstance(item, dict) and all(
        isinstance(item.get(key), str) for key in ("name", "template")
    )


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (f"{token}_token" for token in _SPECIAL_TOKENS):
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _read_object(path: Path) -> dict[str, Any]:
    """The file's JSON object; empty where there is no file."""
    if not path.is_file():
        return {}
    try:
        return msgspec.json.decode(_read_text(path), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ModelError(f"{path}: {error}") from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: {error}") from error
