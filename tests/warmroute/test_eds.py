from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from router.pool.pool import Pool
from tests.support import make
from warmroute.eds import EdsFile
from warmroute.errors import StartError


def places(path: Path) -> list[tuple[str, int]]:
    """What Envoy reads."""
    response: Any = msgspec.json.decode(path.read_bytes())
    (assignment,) = response["resources"]
    assert assignment["cluster_name"] == "engines"
    (locality,) = assignment["endpoints"]
    addresses = (e["endpoint"]["address"]["socket_address"] for e in locality["lb_endpoints"])
    return [(address["address"], address["port_value"]) for address in addresses]


def test_the_file_is_what_the_pool_is_at_any_time(tmp_path: Path) -> None:
    pool, path = Pool(), tmp_path / "eds.json"
    EdsFile(path, pool)
    assert places(path) == []
    pool.replace([make.endpoint("10.0.0.1:8000"), make.endpoint("[fd00::1]:8001")])
    assert places(path) == [("10.0.0.1", 8000), ("fd00::1", 8001)]
    pool.replace([make.endpoint("10.0.0.2:8000")])
    assert places(path) == [("10.0.0.2", 8000)]


def test_the_file_is_replaced_as_a_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    pool, path = Pool(), tmp_path / "eds.json"
    EdsFile(path, pool)
    with path.open("rb") as before:
        text = before.read()
        pool.replace([make.endpoint("10.0.0.1:8000")])
        before.seek(0)
        assert before.read() == text
    assert list(tmp_path.iterdir()) == [path]


def test_many_changes_at_once_are_written_once(tmp_path: Path) -> None:
    pool, path = Pool(), tmp_path / "eds.json"
    EdsFile(path, pool)
    pool.replace(make.endpoint(f"10.0.0.{i}:8000") for i in range(50))
    assert msgspec.json.decode(path.read_bytes())["version_info"] == "2"


def test_a_write_that_fails_is_told_and_made_up_for(tmp_path: Path) -> None:
    pool, folder = Pool(), tmp_path / "eds"
    folder.mkdir()
    path = folder / "eds.json"
    eds = EdsFile(path, pool)
    path.unlink()
    folder.rmdir()
    with capture_logs() as logs:
        pool.replace([make.endpoint("10.0.0.1:8000")])
    assert [entry["event"] for entry in logs] == ["eds.failed"]
    assert eds.failed == 1
    folder.mkdir()
    eds.sync()
    assert places(path) == [("10.0.0.1", 8000)]


def test_a_place_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="--eds-file"):
        EdsFile(tmp_path / "none" / "eds.json", Pool())
