"""What the configuration asks for in vain."""

from __future__ import annotations

from collections.abc import Iterator

from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding


def in_vain(case: Case) -> Iterator[Finding]:
    """Each warning of the configuration."""
    for warning in case.config_warnings:
        yield Finding(
            code="config-warning",
            about="configuration",
            what=warning,
            evidence={"warning": warning},
            fix="warmroute check FILE explains the configuration, with lines",
        )
