"""CPU time of other processes, as the kernel counts it. IO."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_UTIME, _STIME = 11, 12
"""Fields 14 and 15 of proc_pid_stat(5), counted from the first one behind the name."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system seconds of all threads of a process, those that ended included."""
    return parse_stat(Path(f"/proc/{pid}/stat").read_text()) / TICKS_PER_S


def parse_stat(stat: str) -> int:
    """Clock ticks in user and system mode, from the text of ``/proc/PID/stat``."""
    # The name of a process may hold spaces and parentheses; behind the last one are only numbers.
    fields = stat[stat.rindex(")") + 1 :].split()
    return int(fields[_UTIME]) + int(fields[_STIME])


class Usage:
    """CPU seconds of named processes since it was made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = self._read()

    def used_s(self) -> Mapping[str, float]:
        """Seconds by name."""
        now = self._read()
        return {name: now[name] - before for name, before in self._before.items()}

    def _read(self) -> dict[str, float]:
        return {name: cpu_s(pid) for name, pid in self._pids.items()}
