"""`/query` of `warmroute conductor` beside Dynamo's stand-alone indexer, over HTTP. IO."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from bench import load
from bench.cpu import Usage
from bench.figures import Figure, number
from bench.peers.child import ROOT
from bench.peers.engine import publisher, sequence
from bench.peers.side import prompt
from bench.report import report
from tests.support.ports import free_port

MODEL = "bench"
BLOCK_SIZE = 16
READY_S = 30.0
STOP_S = 10.0
POLL_S = 0.02


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        tokens: Lengths of the prompts, all prefixes of the longest, which comes last.
        workers: How many hold a part of it, each more than the one before.
        calls: Of one length, one after the other.
        connections: Requests under way at once, where it is asked how many a second are answered.
        rounds: Of each side, in turn.
    """

    tokens: Sequence[int] = (512, 8 * 1024, 32 * 1024)
    workers: int = 8
    calls: int = 200
    connections: int = 16
    rounds: int = 3


class Side(msgspec.Struct, frozen=True):
    """One of the two services.

    Attributes:
        command: Starts it on a port.
        registration: What tells it of a worker, by number and address of its events.
        longest: The most tokens that a worker holds, in an answer.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    registration: Callable[[int, str], Mapping[str, Any]]
    longest: Callable[[Any], int]


class Measured(msgspec.Struct, frozen=True):
    """One length on one side.

    Attributes:
        p50_ms: One request after the other.
        p99_ms: Likewise.
        cpu_us: CPU time of the service for one of these requests.
        rate: Requests a second, several at once.
    """

    p50_ms: float
    p99_ms: float
    cpu_us: float
    rate: float


OURS = Side(
    "warmroute",
    lambda port: [sys.executable, "-m", "warmroute", "conductor", f"--port={port}"],
    lambda worker, events: {
        "instance_id": f"vllm-prefill-{worker}",
        "modelname": MODEL,
        "block_size": BLOCK_SIZE,
        "medium_endpoints": {"npu": events},
    },
    lambda answer: max((i["longest_matched"] for i in answer["default"].values()), default=0),
)

DYNAMO_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

DYNAMO = Side(
    "Dynamo",
    # It listens on all addresses and cannot be told otherwise.
    lambda port: [str(DYNAMO_PYTHON), "-m", "dynamo.indexer", f"--port={port}"],
    lambda worker, events: {
        "instance_id": worker,
        "endpoint": events,
        "model_name": MODEL,
        "block_size": BLOCK_SIZE,
        "dp_rank": 0,
    },
    lambda answer: max((max(r.values()) for r in answer["scores"].values()), default=0),
)


def figures(size: Size | None = None, sides: Sequence[Side] = (OURS, DYNAMO)) -> list[Figure]:
    """One for each length; none, and a line that says why, where Dynamo is missing."""
    if DYNAMO in sides and not DYNAMO_PYTHON.exists():
        print(f"skipped: there is no {DYNAMO_PYTHON}, which `make peers` makes")
        return []
    size = size or Size()
    rounds = [[_measured(side, size) for side in sides] for _ in range(size.rounds)]
    return [_figure(tokens, at, rounds, size) for at, tokens in enumerate(size.tokens)]


def _figure(
    tokens: int, at: int, rounds: Sequence[Sequence[Sequence[Measured]]], size: Size
) -> Figure:
    ours, theirs = (
        Measured(
            *(
                statistics.median(getattr(sides[side][at], field) for sides in rounds)
                for field in Measured.__struct_fields__
            )
        )
        for side in (0, 1)
    )
    return Figure(
        name=f"/query of {tokens} tokens, block {BLOCK_SIZE}, {size.workers} workers",
        value=ours.p50_ms / theirs.p50_ms,
        unit="x",
        baseline="1 (Dynamo, this run)",
        note=f"ours {_told(ours, size)}; Dynamo {_told(theirs, size)}",
    )


def _told(measured: Measured, size: Size) -> str:
    latency = f"p50 {number(measured.p50_ms * 1e3)} us, p99 {number(measured.p99_ms * 1e3)} us"
    rate = f"{number(measured.rate)} requests/s with {size.connections} at once"
    return f"{latency}, CPU {number(measured.cpu_us)} us, {rate}"


def _measured(side: Side, size: Size) -> list[Measured]:
    """Start it, tell it of the workers and what they hold, and ask."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    ids = prompt(size.tokens[-1])
    with ExitStack() as stack:
        process = stack.enter_context(_started(side.command(port)))
        _until(lambda: _get(f"{url}/health"))
        workers = [stack.enter_context(publisher()) for _ in range(size.workers)]
        for worker, engine in enumerate(workers):
            _post(f"{url}/register", side.registration(worker, engine.endpoint))
            engine.await_subscriber()
            engine.publish(sequence(ids[: len(ids) * (worker + 1) // size.workers]))
        question = {"model": MODEL, "model_name": MODEL, "block_size": BLOCK_SIZE}
        _until(
            lambda: side.longest(_post(f"{url}/query", {**question, "token_ids": ids})) >= len(ids)
        )
        return [
            _asked(port, {**question, "token_ids": ids[:tokens]}, process.pid, size)
            for tokens in size.tokens
        ]


def _asked(port: int, question: Mapping[str, Any], pid: int, size: Size) -> Measured:
    body = msgspec.json.encode(question)
    asked = load.Load(
        host="127.0.0.1", port=port, path="/query", bodies=[body] * size.calls, connections=1
    )
    usage = Usage({"service": pid})
    alone = load.run(asked)
    cpu_us = usage.used_s()["service"] / size.calls * 1e6
    together = load.run(msgspec.structs.replace(asked, connections=size.connections))
    return Measured(alone.quantile_ms(0.5), alone.quantile_ms(0.99), cpu_us, together.rate)


@contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=STOP_S)


def _get(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=READY_S) as response:
            return bool(response.status == 200)
    except urllib.error.URLError:
        return False


def _post(url: str, body: Mapping[str, Any]) -> Any:
    """The decoded answer. Raises urllib.error.HTTPError."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, msgspec.json.encode(body), headers)
    with urllib.request.urlopen(request, timeout=READY_S) as response:
        return msgspec.json.decode(response.read())


def _until(condition: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    give_up_at = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError("the service did not become ready")
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(report({"conductor": figures}))
