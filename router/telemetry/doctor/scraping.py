"""Figures of load that are old, or missing."""

from __future__ import annotations

from collections.abc import Iterator

from router.pool.endpoint import NO_METRICS, EngineMetrics
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

NEW_S = 5.0
"""How long an endpoint that came may go without a scrape."""

_LABEL = (
    "label the endpoint with its kind of engine (llm-d.ai/engine-type), whose names of metrics are "
    "then looked for"
)


def stale(case: Case) -> Iterator[Finding]:
    """The last scrape is too old to go by, or there was none."""
    for endpoint in case.endpoints:
        metrics = endpoint.metrics
        if metrics is None:
            if case.lasting_s(("unscraped", endpoint.address)) < NEW_S:
                continue
            age_s, good_for_s = None, None
        elif metrics.tell(case.now):
            continue
        else:
            age_s, good_for_s = round(case.now - metrics.scraped_at, 2), metrics.good_for_s
        seen = "never scraped" if age_s is None else f"last scraped {age_s:.0f} s ago"
        yield Finding(
            code="metrics-stale",
            about=endpoint.address,
            what=f"it was {seen}, so its load is not known"
            + ("" if endpoint.alive else "; it is no candidate"),
            evidence={
                "age_s": age_s,
                "good_for_s": good_for_s,
                "alive": endpoint.alive,
                "fault": endpoint.scrape_fault or None,
            },
            fix=_LABEL
            if endpoint.scrape_fault == NO_METRICS
            else f"see that http://{endpoint.address}/metrics answers from here",
        )


def incomplete(case: Case) -> Iterator[Finding]:
    """The page lacks a figure that decisions go by."""
    for endpoint in case.endpoints:
        metrics = endpoint.metrics
        if endpoint.scrape_fault == NO_METRICS:
            metrics = EngineMetrics()  # what was read before is of another page
        if metrics is None:
            continue
        needed = {"waiting": metrics.waiting, "running": metrics.running}
        missing = [name for name, value in needed.items() if value is None]
        if not missing:
            continue
        yield Finding(
            code="metrics-incomplete",
            about=endpoint.address,
            what=f"its metrics lack {' and '.join(missing)} requests",
            evidence={"missing": missing, "ignored_lines": metrics.ignored_lines},
            fix=_LABEL,
        )
