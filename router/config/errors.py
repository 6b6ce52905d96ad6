"""The one error of a configuration."""

from __future__ import annotations


class ConfigError(ValueError):
    """What is wrong, at which path of the file, and what would be right."""
