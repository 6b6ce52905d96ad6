"""The dashboard and the alerts hold together; promtool, where it is installed, says the same."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.support.queries import ALERTS, SCRAPES, alerts, dashboard, metrics

CASES = Path(__file__).parent / "alerts_test.yaml"

PANELS: list[Any] = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def promtool(*arguments: str) -> None:
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_rules_and_the_scrape_configuration() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("check", "config", str(SCRAPES))


def test_each_alert_fires_when_it_should_and_only_then() -> None:
    promtool("test", "rules", str(CASES))


def test_each_alert_has_a_case_that_fires_it_and_one_that_does_not() -> None:
    names = {rule["alert"] for rule in alerts()}
    fine, wrong = yaml.safe_load(CASES.read_text())["tests"]
    assert {case["alertname"] for case in fine["alert_rule_test"]} == names
    assert not any(case["exp_alerts"] for case in fine["alert_rule_test"])
    assert {case["alertname"] for case in wrong["alert_rule_test"]} == names
    assert all(case["exp_alerts"] for case in wrong["alert_rule_test"])


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_look(rule: Any) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"].endswith((".", ","))
    assert rule["for"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_says_what_it_shows_and_follows_the_choices_above(panel: Any) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        asked = target["expr"].count('instance=~"$instance"')
        assert asked >= len(metrics(target["expr"])) > 0


def differences(ours: Any, kept: Any, at: str = "") -> list[str]:
    """Where something that we say is not what was kept of it."""
    if isinstance(ours, dict) and isinstance(kept, dict):
        parts = ((value, kept.get(name), f"{at}.{name}") for name, value in ours.items())
    elif isinstance(ours, list) and isinstance(kept, list) and len(ours) == len(kept):
        parts = ((*pair, f"{at}[{i}]") for i, pair in enumerate(zip(ours, kept, strict=True)))
    else:
        return [] if ours == kept else [f"{at}: {ours!r} became {kept!r}"]
    return [found for part in parts for found in differences(*part)]


def test_grafana_s_own_schema_keeps_everything_the_dashboard_says() -> None:
    plugins.register_default_plugins()
    ours = dashboard()
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    assert differences(ours, kept) == []
    ours["panels"][1]["gridPosition"] = {"x": 0}
    kept = json.loads(JSONEncoder().encode(Dashboard.from_json(ours)))
    assert differences(ours, kept) == [".panels[1].gridPosition: {'x': 0} became None"]


def test_panels_have_a_place_and_a_number_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart or above, (one, other)
        assert one["x"] + one["w"] <= 24
