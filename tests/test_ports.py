"""Ports for tests: what one is given, no neighbour gets."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.support.ports import FIRST_PORT, LAST_PORT, SHARE, free_port


def test_no_port_is_given_twice_in_a_row_nor_to_another_process() -> None:
    ours = {free_port() for _ in range(SHARE // 2)}
    assert len(ours) == SHARE // 2
    asks = "from tests.support.ports import free_port; print(*(free_port() for _ in range(20)))"
    told = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    theirs = {int(port) for port in told.stdout.split()}
    assert len(theirs) == 20
    assert not ours & theirs
    assert all(FIRST_PORT <= port < LAST_PORT for port in ours | theirs)


def test_a_run_of_ports_leaves_out_one_that_is_taken() -> None:
    first = free_port(run=4)
    with socket.create_server(("127.0.0.1", first + 3)):
        runs = [free_port(run=3) for _ in range(SHARE // 3)]
    assert runs
    assert not [each for each in runs if each <= first + 3 < each + 3]
