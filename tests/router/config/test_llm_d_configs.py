"""The sample configurations of llm-d's repository load as they are, but for the broken one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from router.config.errors import ConfigError
from router.config.load import load

FOLDER = Path(__file__).parents[2] / "captures" / "llm_d_configs"
BROKEN = "epp-mm-embeddings-cache-config"
FILES = sorted(path for path in FOLDER.glob("*.yaml") if path.stem != BROKEN)

TELLS = {
    "epp-burst-prefix-cache-config": 1,
    "sim-epp-no-hit-lru": 2,
    "sim-epp-tokenizer-vllm-http-config": 1,
    "sim-program-aware-config": 3,
    "soft-reflective-ceiling-epp-config": 3,
}
"""File -> how many warnings it gives: a word that nobody filled in, nothing that feeds it, or it
asks for flow control."""


def test_all_of_them_are_here() -> None:
    assert len(FILES) == 18


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_configuration_of_llm_d_loads(path: Path) -> None:
    config = load(path.read_text())
    assert len(config.warnings) == TELLS.get(path.stem, 0), config.warnings
    assert config.profiles


def test_the_broken_one_is_refused_with_its_field() -> None:
    said = (
        "unknown field `cacheSizeInMB`; did you mean 'cacheSizeInMBPerServer'?"
        " - at `$.plugins[4].parameters`"
    )
    with pytest.raises(ConfigError, match=re.escape(said)):
        load((FOLDER / f"{BROKEN}.yaml").read_text())
