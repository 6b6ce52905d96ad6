"""A configuration that is not in force, or asks for something in vain."""

from __future__ import annotations

from collections.abc import Iterator

from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding


def not_in_force(case: Case) -> Iterator[Finding]:
    """The file changed, and what it says now cannot run."""
    if case.config.error is not None:
        yield Finding(
            code="config-not-in-force",
            about="configuration",
            what=f"the file as it is now is not in force: {case.config.error}",
            evidence={"error": case.config.error, "failures": case.config.failures},
            fix="correct the file; warmroute check FILE says what is wrong with it",
        )


def in_vain(case: Case) -> Iterator[Finding]:
    """Each warning of the configuration."""
    for warning in case.config.warnings:
        yield Finding(
            code="config-warning",
            about="configuration",
            what=warning,
            evidence={"warning": warning},
            fix="warmroute check FILE explains the configuration, with lines",
        )
