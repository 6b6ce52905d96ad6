"""What keeps a command from starting, as one line for a terminal."""

from __future__ import annotations


class StartError(Exception):
    """Its text is all the user sees; the command exits with 1."""
