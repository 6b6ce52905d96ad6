"""llm-d's sample configurations route through real Envoy, unchanged but for addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.router.config.test_llm_d_configs import BROKEN, FILES, FOLDER
from tests.support import markdown
from tests.support.echo_engine import EchoEngine, echo_engine
from tests.support.ports import free_port, loopback_block
from tests.support.processes import Fleet, command, router_and_envoy, until
from tests.test_recipes import PAGES as RECIPES

ROLES = ("decode", "prefill", "encode")

TEXT = "the quick brown fox jumps over the lazy dog " * 40
"""Long enough to be worth a prefill of its own."""

PREFILLED = frozenset(
    {"pd-epp-config", "pd-topology-epp-config", "sim-pd-epp-config", "sim-e-p-d-epp-config"}
)
"""Files by which a long prompt that nobody holds is computed elsewhere."""

ENCODED = frozenset({"sim-e-p-d-epp-config", "sim-e-pd-epp-config"})
"""Files by which an image is encoded elsewhere."""

ANYBODY = frozenset(
    {
        "probabilistic-admitter-epp-config",
        "sim-program-aware-config",
        "soft-reflective-ceiling-epp-config",
    }
)
"""Files without a filter by role."""


class Samples(Fleet):
    """
    Attributes:
        by_role: Role -> address and engine.
    """

    by_role: Mapping[str, tuple[str, EchoEngine]]

    async def chat(self, content: Any) -> tuple[str, Mapping[str, str]]:
        """Who answered a chat, and the headers it was sent."""
        body = {"model": "tiny", "messages": [{"role": "user", "content": content}]}
        async with self.session.post(f"{self.url}/v1/chat/completions", json=body) as response:
            told = msgspec.json.decode(await response.read())
            assert response.status == 200, told
        headers = {name.lower(): value for name, value in told["headers"]}
        (role,) = (role for role, (_, e) in self.by_role.items() if e.requests)
        self.by_role[role][1].requests.clear()
        return role, headers


def on_loopback(path: Path, folder: Path) -> Path:
    """The configuration with its bind address rewritten."""
    config = folder / "bound.yaml"
    bound = f"tcp://127.0.0.1:{free_port()}"
    config.write_text(path.read_text().replace("tcp://0.0.0.0:5557", bound))
    return config


@asynccontextmanager
async def fleet_of(path: Path, folder: Path) -> AsyncIterator[Samples]:
    head, _, last = loopback_block().rpartition(".")
    hosts = {role: f"{head}.{int(last) + i}" for i, role in enumerate(ROLES)}
    entries = [
        {"name": role, "address": host, "port": 8000, "labels": {"llm-d.ai/role": role}}
        for role, host in hosts.items()
    ]
    endpoints = folder / "endpoints.json"
    endpoints.write_bytes(msgspec.json.encode({"endpoints": entries}))
    timeout = aiohttp.ClientTimeout(total=30)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Samples(folder, session)
        fleet.by_role = {
            role: (f"{host}:8000", await stack.enter_async_context(echo_engine(host)))
            for role, host in hosts.items()
        }
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, f"--config-file={on_loopback(path, folder)}")
        )
        await until(fleet.reached)
        await until(fleet.scraped)
        yield fleet


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_a_configuration_of_llm_d_routes(path: Path, tmp_path: Path) -> None:
    async with fleet_of(path, tmp_path) as fleet:
        role, headers = await fleet.chat(TEXT)
        assert role == "decode" or path.stem in ANYBODY
        prefill, encode = fleet.by_role["prefill"][0], fleet.by_role["encode"][0]
        expected = prefill if path.stem in PREFILLED else None
        assert headers.get("x-prefiller-host-port") == expected
        assert "x-encoder-hosts-ports" not in headers
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        _, headers = await fleet.chat([{"type": "text", "text": TEXT}, picture])
        expected = encode if path.stem in ENCODED else None
        assert headers.get("x-encoder-hosts-ports") == expected


@pytest.mark.parametrize("name", [name for name in RECIPES if name != "images.md"])
async def test_a_recipe_routes(name: str, tmp_path: Path) -> None:
    (config,) = markdown.blocks(markdown.read(f"docs/recipes/{name}"), "yaml")
    path = tmp_path / "recipe.yaml"
    path.write_text(config)
    async with fleet_of(path, tmp_path) as fleet:
        role, headers = await fleet.chat(TEXT)
        assert role == "decode" or name != "long-contexts.md"
        assert "x-prefiller-host-port" not in headers  # of fewer tokens than are worth it


async def test_the_broken_one_starts_no_router(tmp_path: Path) -> None:
    serve = command("serve", f"--config-file={FOLDER / BROKEN}.yaml", "--endpoints=unused")
    running = await asyncio.create_subprocess_exec(*serve, stderr=asyncio.subprocess.PIPE)
    _, said = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode == 1
    assert b"cacheSizeInMB" in said
    assert b"line 14" in said
