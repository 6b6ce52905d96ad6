"""What the dashboard and the alerts ask of Prometheus. IO (it reads them)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
SCRAPES = DEPLOY / "prometheus" / "prometheus.yaml"
DASHBOARD = DEPLOY / "grafana" / "warmroute.json"


def dashboard() -> Any:
    """The Grafana dashboard."""
    return json.loads(DASHBOARD.read_text())


def alerts() -> list[Any]:
    """Every alert rule."""
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def panel_queries() -> Iterator[tuple[str, str]]:
    """Title of a panel and what it asks, with Grafana's variables filled in."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
            yield panel["title"], text


def metrics(text: str) -> set[str]:
    """Names of the router's metrics in a query."""
    return set(re.findall(r"\b(?:llm_d_epp|warmroute)_\w+", text))


def all_metrics() -> set[str]:
    """Those that any panel or alert asks for."""
    texts = [text for _, text in panel_queries()] + [rule["expr"] for rule in alerts()]
    return set().union(*map(metrics, texts))
