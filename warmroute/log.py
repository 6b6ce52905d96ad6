"""Log set-up: one event a line, as JSON or for people, on standard error or output. IO."""

from __future__ import annotations

import sys
from typing import Literal, TextIO

import structlog

Format = Literal["json", "text"]


def configure(form: Format, stream: TextIO = sys.stderr) -> None:
    """Call once, before the first event."""
    renderer: structlog.typing.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
