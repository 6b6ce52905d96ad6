from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from simulator.config import BUNDLED_MODEL_DIR
from simulator.language import Language
from tests.simulator.recordings import samples

LANGUAGE = Language.load(BUNDLED_MODEL_DIR)


def copy_of_model(tmp_path: Path, **config: object) -> Path:
    directory = tmp_path / "model"
    shutil.copytree(BUNDLED_MODEL_DIR, directory)
    (directory / "generation_config.json").unlink()
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def test_the_bundled_model_ends_answers_with_its_end_of_turn() -> None:
    assert LANGUAGE.end_token_ids == (2, 0)
    assert LANGUAGE.encoder.decode([2], skip_special_tokens=False) == "<|im_end|>"


def test_a_model_without_generation_settings_ends_as_its_config_says(tmp_path: Path) -> None:
    assert Language.load(copy_of_model(tmp_path, eos_token_id=5)).end_token_ids == (5,)


def test_a_model_without_an_end_is_refused_by_its_path(tmp_path: Path) -> None:
    directory = copy_of_model(tmp_path)
    with pytest.raises(ValueError, match=f"{directory}: no eos_token_id"):
        Language.load(directory)


def test_tokens_are_named_as_in_the_vocabulary() -> None:
    answer = samples()["tokenize-prompt"].response
    strings = LANGUAGE.token_strings
    assert [strings[token_id] for token_id in answer["tokens"]] == answer["token_strs"]
    assert strings[1] == "<|im_start|>"
    assert len(strings) == LANGUAGE.encoder.vocab_size
