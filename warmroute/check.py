"""`warmroute check`: says what a configuration makes of itself, or what is wrong with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from router.config import text as config_text
from router.config.errors import ConfigError
from router.config.explain import explain, explain_notes
from router.config.load import Config, load
from warmroute.errors import StartError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="an EndpointPickerConfig, or a user_config.json of MindIE Motor",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation. Raises StartError where the configuration cannot run."""
    path: Path = arguments.file
    try:
        text = path.read_text()
        config = load(text)
    except OSError as error:
        raise StartError(f"{path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, ConfigError) as error:
        raise StartError(f"{path}: {error}") from error
    print("\n".join(_report(path, text, config)))
    return 0


def _report(path: Path, text: str, config: Config) -> list[str]:
    lines = {note.path: config_text.line_of(text, note.path) for note in config.notes}
    warnings = len(config.warnings)
    verdict = f"{path} can run"
    if warnings:
        verdict += f", with {warnings} warning{'s' if warnings > 1 else ''}"
    return [*explain(config), *explain_notes(config.notes, lines), "", f"{verdict}."]
