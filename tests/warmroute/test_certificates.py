from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from warmroute.certificates import credentials
from warmroute.errors import StartError
from warmroute.tls import self_signed


def write(folder: Path) -> str:
    """A new pair; the certificate as a client sees it."""
    key, certificate = self_signed()
    (folder / "tls.key").write_bytes(key)
    (folder / "tls.crt").write_bytes(certificate)
    return certificate.decode()


@asynccontextmanager
async def serving(folder: Path | None, *, reload: bool = False) -> AsyncIterator[int]:
    """A server on the port that is given."""
    server = grpc.aio.server()
    port = server.add_secure_port("127.0.0.1:0", credentials(folder, reload=reload))
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def shown(port: int) -> str:
    """The certificate a new connection is shown."""
    return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=10)


async def test_a_given_certificate_is_shown(tmp_path: Path) -> None:
    certificate = write(tmp_path)
    async with serving(tmp_path) as port:
        assert await shown(port) == certificate
        write(tmp_path)
        assert await shown(port) == certificate


async def test_files_that_change_are_taken_over_where_that_is_wanted(tmp_path: Path) -> None:
    first = write(tmp_path)
    async with serving(tmp_path, reload=True) as port:
        assert await shown(port) == first
        second = write(tmp_path)
        assert await shown(port) == second
        (tmp_path / "tls.key").write_bytes(self_signed()[0])
        with capture_logs() as logs:
            assert await shown(port) == second
        assert "certificate.ignored" in [entry["event"] for entry in logs]
        (tmp_path / "tls.crt").unlink()
        assert await shown(port) == second


async def test_without_files_the_certificate_is_self_signed() -> None:
    async with serving(None) as port:
        assert "BEGIN CERTIFICATE" in await shown(port)


@pytest.mark.parametrize("missing", ["tls.key", "tls.crt", "nonsense", "mismatch"])
def test_files_that_cannot_be_used_stop_the_start(tmp_path: Path, missing: str) -> None:
    write(tmp_path)
    match missing:
        case "nonsense":
            (tmp_path / "tls.crt").write_bytes(b"no certificate")
        case "mismatch":
            (tmp_path / "tls.key").write_bytes(self_signed()[0])
        case name:
            (tmp_path / name).unlink()
    with pytest.raises(StartError, match="--cert-path"):
        credentials(tmp_path, reload=True)
