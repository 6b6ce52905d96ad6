"""Real Chromium, driven by Playwright; skips by name where one of them is not installed. IO.

Neither is a dependency: together they are some hundred megabytes.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import until

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

SIZES = {"desk": (1360, 900), "phone": (390, 844)}
"""Width and height in CSS pixels."""


class Tab:
    """One page of a browser, and all it complained about.

    Attributes:
        page: Playwright's page.
        complaints: What the console and the page reported as wrong.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    async def text(self, selector: str) -> str:
        """What can be read there."""
        return str(await self.page.locator(selector).first.inner_text())

    async def count(self, selector: str) -> int:
        """How many there are."""
        return int(await self.page.locator(selector).count())

    async def waits_for(self, expression: str) -> None:
        """Until JavaScript says so. Asked from outside: the page's policy forbids `eval`."""
        try:
            await until(lambda: self.page.evaluate(expression))
        except TimeoutError:
            raise AssertionError(f"never: {expression}") from None


@asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    """Playwright's browser, headless."""
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    async with playwright.async_playwright() as started:
        running = await started.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            await running.close()


@asynccontextmanager
async def tab(
    running: Any, url: str, *, scheme: str = "light", size: str = "desk"
) -> AsyncIterator[Tab]:
    """The page at `url`, as somebody with that colour scheme and screen sees it."""
    width, height = SIZES[size]
    context = await running.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}
    )
    try:
        opened = Tab(await context.new_page())
        await opened.page.goto(url)
        yield opened
    finally:
        await context.close()


async def screenshot(opened: Tab, path: Path) -> None:
    """The whole page as a picture."""
    await opened.page.screenshot(path=path, full_page=True)
