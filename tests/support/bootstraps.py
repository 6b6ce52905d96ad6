"""Writes the rendered Envoy bootstraps: `python -m tests.support.bootstraps FOLDER`. IO."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from warmroute.bootstrap import render
from warmroute.envoy_settings import EnvoySettings

BOOTSTRAPS: Mapping[str, EnvoySettings] = {
    "original-dst.json": EnvoySettings(router_tls=True),
    "original-dst-full-duplex.json": EnvoySettings(router_tls=True, full_duplex=True),
    "original-dst-unix-socket.json": EnvoySettings(router_socket="/run/warmroute/router.sock"),
    "override-host.json": EnvoySettings(
        router_tls=True, eds_file="/etc/warmroute/eds/engines.json"
    ),
    "compose.json": EnvoySettings(router_host="router", admin_port=9901),
}
"""File name in `envoy/` -> what it is rendered from."""


def write(folder: Path) -> None:
    """Render every bootstrap into `folder`."""
    for name, settings in BOOTSTRAPS.items():
        (folder / name).write_text(render(settings))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
