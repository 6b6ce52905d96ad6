"""What a request body costs the router by its size and by how Envoy sends it. IO.

The bodies are read as JSON and routed by load, so that neither the tokenizer nor the index counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bench import prompts
from bench.engine import MODEL
from bench.figures import Figure
from bench.load import Load, run
from bench.report import report
from bench.stack import Stack, stack

PATH = "/v1/embeddings"
CONNECTIONS = 8

MODES: Mapping[str, bool] = {"buffered": False, "full duplex": True}
"""Name -> whether bodies are streamed to the router and back."""


class Size(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        bodies: Bytes of a body, and requests per run.
        rounds: Runs of each kind; the least disturbed one counts.
    """

    bodies: Sequence[tuple[int, int]] = (
        (1024, 1000),
        (16 * 1024, 1000),
        (128 * 1024, 400),
        (1024 * 1024, 100),
        (4 * 1024 * 1024, 30),
    )
    rounds: int = 3


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it."""
    return [figure for name in MODES for figure in _mode(name, size)]


def _mode(name: str, size: Size) -> Iterator[Figure]:
    with stack(1, full_duplex=MODES[name]) as running:
        _core_ms(running, 1024, 200)
        for length, count in size.bodies:
            spent = [_core_ms(running, length, count) for _ in range(size.rounds)]
            least = min(spent, key=lambda each: each["router"])
            yield Figure(
                name=f"body of {_readable(length)}, {name}",
                value=least["router"],
                unit="core-ms",
                note=f"Envoy {least['envoy']:.3g}",
            )


def _core_ms(running: Stack, length: int, count: int) -> Mapping[str, float]:
    """Process -> CPU milliseconds per request."""
    load = Load(
        host=running.host,
        port=running.port,
        path=PATH,
        bodies=[body(length)] * count,
        connections=min(CONNECTIONS, count),
    )
    usage = running.usage()
    run(load)
    return {name: seconds * 1e3 / count for name, seconds in usage.used_s().items()}


def body(length: int) -> bytes:
    """An embedding body of so many bytes."""
    start, end = b'{"model":"%b","input":"' % MODEL.encode(), b'"}'
    # Without what JSON would escape: then a byte is a byte.
    plain = "".join(c for c in prompts.text(length, seed=1) if c.isalnum() or c == " ")
    room = length - len(start) - len(end)
    return start + plain.encode("ascii", "ignore")[:room] + end


def _readable(length: int) -> str:
    return f"{length // 1024} KiB" if length < 1024 * 1024 else f"{length // 1024 // 1024} MiB"


if __name__ == "__main__":
    sys.exit(report({"bodies": figures}))
