"""A Unix socket's file: claiming it from a dead process, giving it a mode, taking it away. IO."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_PATH_BYTES = 107
"""What fits into Linux's sockaddr_un beside the final zero byte."""


class SocketUnusable(OSError):
    """The path cannot be listened on; the message says why."""


def claim(path: Path) -> None:
    """Make room for a socket: remove what a dead process left.

    Raises SocketUnusable where the folder is missing (one that is made up on the spot would be
    another than its readers look into), a living process listens or something else has the name.
    """
    if len(os.fsencode(path)) > _MAX_PATH_BYTES:
        raise SocketUnusable(f"{path}: a socket's path has at most {_MAX_PATH_BYTES} bytes")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise SocketUnusable(f"{path}: no folder {folder}")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketUnusable(f"{path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise SocketUnusable(f"{path}: there is a file of that name that is not a socket")
    if _somebody_listens(path):
        raise SocketUnusable(f"{path}: another process is listening there")
    path.unlink(missing_ok=True)


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except BlockingIOError:  # its queue is full, so somebody owns it
            return True
        except OSError as error:
            raise SocketUnusable(f"{path}: {error.strerror}") from error
    return True


@contextmanager
def created_with(mode: int) -> Iterator[None]:
    """Sockets bound inside have this mode from their first moment."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)
