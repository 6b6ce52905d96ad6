"""The live page in real Chromium, beside a router that routes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.end_to_end.conftest import running_fleet
from tests.end_to_end.routers import router
from tests.end_to_end.test_up import START_S, started
from tests.support.browser import SIZES, Tab, browser, screenshot, tab
from tests.support.ports import free_port, loopback_block
from tests.support.processes import command, until

HOSTILE = "<img src=x onerror=document.title=1>"

SYSTEM = (
    "You answer in one sentence, plainly, without a list, and you say what you do not know. " * 6
)


class House:
    """What `warmroute up` runs on this machine."""

    def __init__(self, session: aiohttp.ClientSession, port: int, http_port: int) -> None:
        self.session = session
        self.clients = f"http://127.0.0.1:{port}"
        self.pages = f"http://127.0.0.1:{http_port}"

    async def ask(self, question: str, model: str = "tiny", **headers: str) -> int:
        """A chat that begins as all others do; its status."""
        system = {"role": "system", "content": SYSTEM}
        asked = {"role": "user", "content": question}
        body = {"model": model, "messages": [system, asked], "max_tokens": 8}
        url = f"{self.clients}/v1/chat/completions"
        async with self.session.post(url, json=body, headers=headers) as response:
            await response.read()
            return response.status

    async def refused(self) -> int:
        """The status of a body that cannot be read."""
        url, headers = f"{self.clients}/v1/completions", {"content-type": "application/json"}
        async with self.session.post(url, data=b"{", headers=headers) as response:
            return response.status

    async def cut_short(self) -> None:
        """A stream whose client hangs up in the middle."""
        asked = [{"role": "user", "content": SYSTEM}]
        body = {"model": "tiny", "messages": asked, "max_tokens": 2000, "stream": True}
        body["stream_options"] = {"include_usage": True}
        url = f"{self.clients}/v1/chat/completions"
        async with self.session.post(url, json=body) as response:
            await response.content.readany()
            response.close()

    async def decisions(self) -> list[Any]:
        """The chats among the last ones, once all are over."""
        async with self.session.get(f"{self.pages}/debug/decisions") as response:
            kept = msgspec.json.decode(await response.read())["decisions"]
        chats = [record for record in kept if record["kind"] == "chat"]
        return chats if all(record["duration_ms"] is not None for record in chats) else []


@asynccontextmanager
async def house(folder: Path) -> AsyncIterator[House]:
    """`warmroute up` with three engines."""
    port, http_port, output = free_port(), free_port(), folder / "up.log"
    argv = command(
        "up", "--engines=3", f"--port={port}", f"--metrics-port={http_port}",
        f"--grpc-port={free_port()}", f"--grpc-health-port={free_port()}",
        f"--engine-host={loopback_block()}",
    )  # fmt: skip
    async with started(argv, output), aiohttp.ClientSession() as session:
        await until(lambda: "Ctrl-C stops everything" in output.read_text(), START_S)
        yield House(session, port, http_port)


def pictures(folder: Path) -> Path:
    """Where pictures of the page are left for people to look at."""
    chosen = Path(os.environ.get("WARMROUTE_SCREENSHOTS", folder))
    chosen.mkdir(parents=True, exist_ok=True)
    return chosen


async def test_the_page_shows_each_request_as_it_comes_and_why_it_went_there(
    tmp_path: Path,
) -> None:
    async with browser() as chromium, house(tmp_path) as up, tab(chromium, up.pages) as seen:
        await seen.waits_for("document.querySelectorAll('#endpoints tr').length === 3")
        await seen.waits_for("document.querySelector('#live').textContent === 'live'")
        for i in range(6):
            assert await up.ask(f"Question {i}?") == 200
        await seen.waits_for("document.querySelectorAll('#decisions .reuse .bar').length === 6")
        await shows_the_figures(seen, await until(up.decisions))
        await explains(seen)
        await tells_what_went_wrong(seen, up)
        assert seen.complaints == []


async def shows_the_figures(seen: Tab, records: list[Any]) -> None:
    """Those of the records; and what the engines counted is what was predicted."""
    predicted = sum(record["predicted_cached_tokens"] for record in records)
    share = f"{predicted / sum(record['prompt_tokens'] for record in records) * 100:.1f} %"
    assert predicted > 0
    await seen.waits_for(f"document.querySelector('#hit-rate').textContent === '{share}'")
    await seen.waits_for(f"document.querySelector('#actual').textContent === '{share}'")
    assert await seen.text("#predicted") == share
    assert await seen.text("#saved") == f"{predicted}tokens"
    assert await seen.count("#prefixes li") == 1
    assert await seen.text("#endpoints-note") == "3 of 3 can be picked"


async def explains(seen: Tab) -> None:
    """The newest decision, in full."""
    await seen.page.locator("#decisions button").first.click()
    await seen.waits_for("document.querySelector('#why').open")
    picked = await seen.text("#why tr.picked td")
    assert await seen.text("#why h2") == f"Why {picked}"
    assert await seen.count("#why tbody tr") == 3
    assert "prefix-cache-scorer \N{MULTIPLICATION SIGN} 3" in await seen.text("#why thead")
    assert "gpu blocks" in await seen.text("#why tr.picked .held")
    assert "token-producer" in await seen.text("#why .legend")
    link = await seen.page.locator("#why a").get_attribute("href")
    async with aiohttp.ClientSession() as session, session.get(f"{seen.page.url}{link}") as answer:
        assert (await answer.json())["status"] == 200
    await seen.page.keyboard.press("Escape")
    await seen.waits_for("!document.querySelector('#why').open")


async def tells_what_went_wrong(seen: Tab, up: House) -> None:
    """Of the newest request, in its line and in full."""
    newest = "document.querySelector('#decisions li button').lastElementChild.textContent"
    await up.cut_short()
    await seen.waits_for(f"{newest} === 'cut short'")
    await seen.page.locator("#decisions button").first.click()
    await seen.waits_for("document.querySelector('#why').open")
    assert "200, cut short" in await seen.text("#why .facts")
    await seen.page.keyboard.press("Escape")
    assert await up.refused() == 400
    await seen.waits_for(f"{newest} === 'refused'")
    await seen.page.locator("#decisions button").first.focus()
    await seen.page.keyboard.press("Enter")
    await seen.waits_for("document.querySelector('#why h2')?.textContent === 'Why it was refused'")
    assert "400" in await seen.text("#why .facts")
    await seen.page.keyboard.press("Escape")


async def test_it_reads_well_in_light_and_dark_on_a_desk_and_on_a_phone(tmp_path: Path) -> None:
    folder = pictures(tmp_path)
    async with browser() as chromium, house(tmp_path) as up:
        for i in range(5):
            await up.ask(f"Question {i}?")
        for scheme in ("light", "dark"):
            for size in SIZES:
                async with tab(chromium, up.pages, scheme=scheme, size=size) as seen:
                    await reads_well(seen, scheme)
                    await screenshot(seen, folder / f"page-{scheme}-{size}.png")
                    await seen.page.locator("#decisions button").first.click()
                    await seen.waits_for("document.querySelector('#why').open")
                    assert await seen.page.evaluate(OVERFLOWS, "#why") == 0
                    await seen.page.screenshot(path=folder / f"why-{scheme}-{size}.png")
                    assert seen.complaints == []


OVERFLOWS = (
    "(of) => { const e = document.querySelector(of); return e.scrollWidth - e.clientWidth; }"
)

CONTRAST = """(selector) => {
  const light = (color) => {
    const parts = color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const [r, g, b] = parts.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const text = light(getComputedStyle(document.querySelector(selector)).color);
  const card = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
  return (Math.max(text, card) + 0.05) / (Math.min(text, card) + 0.05);
}"""


async def reads_well(seen: Tab, scheme: str) -> None:
    """Nothing sticks out, and text stands out from what is behind it."""
    await seen.waits_for("document.querySelectorAll('#decisions li').length >= 5")
    await seen.waits_for("document.querySelectorAll('#prefixes li').length === 1")
    assert await seen.page.evaluate(OVERFLOWS, "html") == 0
    for selector in ("#hit-rate", ".card h2", "#endpoints td", ".decisions .to", ".foot"):
        assert await seen.page.evaluate(CONTRAST, selector) >= 4.5, selector
    shade = await seen.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    brightness = sum(int(part) for part in shade.strip("rgb()").split(",")) / 3
    assert (brightness < 60) == (scheme == "dark")


async def test_what_clients_write_is_shown_as_text(tmp_path: Path) -> None:
    async with browser() as chromium, house(tmp_path) as up, tab(chromium, up.pages) as seen:
        await up.ask("Hello?", model=HOSTILE, **{"x-request-id": HOSTILE})
        await seen.waits_for(
            "[...document.querySelectorAll('#decisions .name')]"
            f".some((name) => name.textContent === '{HOSTILE}')"
        )
        await seen.page.locator("#decisions button").first.click()
        await seen.waits_for("document.querySelector('#why').open")
        assert await seen.text("#why .mono") == HOSTILE
        assert HOSTILE in await seen.text("#why .top .soft")
        assert await seen.count("img") == 0
        assert "warmroute" in await seen.page.title()
        assert seen.complaints == []


async def test_what_goes_wrong_shows_and_the_page_comes_back_with_the_router(
    tmp_path: Path,
) -> None:
    async with (
        browser() as chromium,
        running_fleet(tmp_path, engines=2) as fleet,
        tab(chromium, fleet.http) as seen,
    ):
        await seen.waits_for("document.querySelector('#health').textContent === 'all well'")
        fleet.kill(fleet.engines[1].partition(":")[0])
        await seen.waits_for("document.querySelectorAll('.trust.down').length === 1")
        await seen.waits_for("document.querySelectorAll('#findings li').length > 0")
        assert await seen.text("#endpoints-note") == "1 of 2 can be picked"
        assert "finding" in await seen.text("#health")
        fleet.kill("router")
        await seen.waits_for("document.querySelector('#live').textContent === 'reconnecting'")
        await fleet.processes["router"].wait()
        async with router(fleet, "--secure-serving=false"):
            await seen.waits_for("document.querySelector('#live').textContent === 'live'")


async def test_a_page_that_nobody_sees_lets_its_stream_go(tmp_path: Path) -> None:
    hide = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    async with (
        browser() as chromium,
        running_fleet(tmp_path, engines=1) as fleet,
        tab(chromium, fleet.http) as seen,
    ):
        await seen.waits_for("document.querySelector('#live').textContent === 'live'")
        await seen.page.evaluate(hide, True)
        assert await seen.page.evaluate("source.readyState") == 2
        await seen.page.evaluate(hide, False)
        await seen.waits_for("document.querySelector('#live').textContent === 'live'")
