"""Log set-up: one event a line, as JSON or for people, on standard error or output. IO."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

import msgspec
import structlog

from warmroute.tables import plain

Format = Literal["json", "text"]

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(form: Format, stream: TextIO = sys.stderr, level: str = "info") -> None:
    """Call once, before the first event. Events below `level` are left out."""
    renderers: list[structlog.typing.Processor]
    if form == "json":
        renderers = [_json]
    else:
        renderers = [_printable, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )


def _printable(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Clients choose names that a terminal would take for commands; a traceback keeps its lines."""
    for key, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if key == "exception" else [value]
            event[key] = "\n".join(map(plain, lines))
    return event


_encoder = msgspec.json.Encoder(enc_hook=str)


def _json(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
    """One event; values that JSON does not know are written as text."""
    return _encoder.encode(event).decode()
