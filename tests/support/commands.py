"""Runs command lines through the real parser, without what they would start."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

import pytest

from warmroute.cli import COMMANDS, main


def parsed(argv: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """What the `warmroute` command makes of `argv`. Raises SystemExit where it refuses."""
    taken: list[argparse.Namespace] = []

    def take(arguments: argparse.Namespace) -> int:
        taken.append(arguments)
        return 0

    with monkeypatch.context() as patch:
        for module, _ in COMMANDS.values():
            patch.setattr(importlib.import_module(module), "run", take)
        main(argv)
    (arguments,) = taken
    return arguments
