"""Claiming a socket's path."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from tokenizer_sidecar.unix_socket import SocketUnusable, claim, created_with


def bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    return listener


@pytest.mark.parametrize("what", ["absent", "a file"])
def test_a_missing_folder_is_named_and_not_made(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "folder"
    if what == "a file":
        folder.write_text("")
    with pytest.raises(SocketUnusable, match=f"no folder {folder}$"):
        claim(folder / "s")
    assert not folder.is_dir()


def test_a_bare_name_lies_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bound(Path("s")).close()
    claim(Path("s"))
    assert not (tmp_path / "s").exists()


def test_the_socket_of_a_dead_process_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound(path).close()
    assert path.exists()
    claim(path)
    assert not path.exists()


def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with bound(path) as listener:
        listener.listen(1)
        with pytest.raises(SocketUnusable, match="another process is listening"):
            claim(path)
    assert path.exists()


def test_a_living_socket_with_a_full_queue_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with bound(path) as listener, socket.socket(socket.AF_UNIX) as one:
        listener.listen(0)
        one.connect(str(path))
        with pytest.raises(SocketUnusable, match="another process is listening"):
            claim(path)


def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(SocketUnusable, match="not a socket"):
        claim(path)
    assert path.read_text() == "precious"


def test_a_path_the_system_cannot_take_is_named(tmp_path: Path) -> None:
    with pytest.raises(SocketUnusable, match="at most 107 bytes"):
        claim(tmp_path / ("x" * 108))


def test_sockets_get_their_mode_when_bound(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with created_with(0o600), bound(tmp_path / "s"):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
        assert os.umask(0) == 0
    finally:
        os.umask(before)
