"""The recipes: each runs, asks for nothing without effect, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from router import catalog
from router.config.load import load
from tests.support import markdown

FOLDER = Path("docs/recipes")
PAGES = sorted(path.name for path in (markdown.ROOT / FOLDER).glob("*.md") if path.stem != "README")


def page(name: str) -> str:
    return markdown.read(f"{FOLDER}/{name}")


@pytest.mark.parametrize("name", PAGES)
def test_a_recipe_runs_and_everything_in_it_has_an_effect(name: str) -> None:
    (config,) = markdown.blocks(page(name), "yaml")
    assert load(config).warnings == ()


@pytest.mark.parametrize("name", PAGES)
def test_a_recipe_says_what_to_watch_and_what_to_turn(name: str) -> None:
    sections = markdown.sections(page(name))
    assert list(sections) == ["Watch", "Turn"]
    assert len(markdown.rows(sections["Turn"])) >= 3


@pytest.mark.parametrize("name", PAGES)
def test_a_recipe_names_only_metrics_and_plugins_that_exist(name: str) -> None:
    text = markdown.prose(page(name))
    told = markdown.read("docs/observe.md") + markdown.read("docs/pd.md")
    for metric in re.findall(r"`((?:warmroute|llm_d_epp)_\w+)`", text):
        assert f"`{metric}`" in told, metric
    for plugin in re.findall(r"`([a-z0-9-]+-(?:scorer|filter|picker|producer|handler))`", text):
        assert plugin in catalog.ALL, plugin


def test_every_recipe_is_listed() -> None:
    assert [name for name in PAGES if f"({name})" not in page("README.md")] == []
