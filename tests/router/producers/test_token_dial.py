"""Whether the socket at a path is still the one that was dialled."""

from __future__ import annotations

from pathlib import Path

from router.producers.token_dial import (
    FIRST_PAUSE_S,
    LIVED_S,
    LONGEST_PAUSE_S,
    Pauses,
    channel,
    identity,
    is_replaced,
)


def test_a_socket_is_replaced_once_another_lies_at_its_path(tmp_path: Path) -> None:
    path, other = tmp_path / "s", tmp_path / "other"
    path.touch()
    other.touch()
    dialled = identity(path)
    assert not is_replaced(path, dialled)
    other.rename(path)
    assert is_replaced(path, dialled)


def test_a_socket_that_is_gone_has_not_been_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.touch()
    dialled = identity(path)
    path.unlink()
    assert identity(path) is None
    assert not is_replaced(path, dialled)
    path.touch()
    assert not is_replaced(path, None)


async def test_a_channel_is_made_before_anybody_listens(tmp_path: Path) -> None:
    async with channel(f"unix:{tmp_path / 's'}", 1000) as opened:
        opened.get_state()


def test_pauses_grow_while_connections_do_no_good() -> None:
    pauses = Pauses()
    lost = [pauses.after(0.0) for _ in range(8)]
    assert lost[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert lost[-1] == LONGEST_PAUSE_S
    assert pauses.after(LIVED_S) == FIRST_PAUSE_S
    assert pauses.after(0.0) == 2 * FIRST_PAUSE_S
