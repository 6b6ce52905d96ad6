"""How gRPC's core is to do its work: it reads that from the environment when it is imported."""

from __future__ import annotations

import os

EXPERIMENTS = "GRPC_EXPERIMENTS"

POLLED = "-event_engine_listener,-event_engine_client"
"""Sockets are read by the one thread that hands events to the loop. Left to itself the core reads
them in a pool of threads and then wakes that one: with short messages, a tenth of the router's
CPU time goes into changing threads."""


def settle() -> None:
    """Must be called before gRPC is imported. Who runs the process may have chosen otherwise."""
    os.environ.setdefault(EXPERIMENTS, POLLED)
