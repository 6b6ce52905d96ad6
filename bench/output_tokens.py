"""What 10,000 output tokens cost the router, read for their usage and not. IO."""

from __future__ import annotations

import sys

import msgspec

from bench import prompts
from bench.engine import MODEL
from bench.figures import Figure
from bench.load import Load
from bench.measure import Spent, least, spend
from bench.report import report
from bench.stack import Stack, stack

ENGINES = 4
OUTPUT_TOKENS = 10_000
PROMPT_TOKENS = 200
SAMPLE = 50
"""One in so many answers is read by default."""

NOISE_CORE_MS = 2.0
"""What counts as none: two runs alike differ by less. It is half a percent of the baseline."""

_TOLD = {"include_usage": True}
"""Of streams that do not tell their usage nothing is read."""

BASELINE = "370 (3.7 cores at 10 req/s, llm-d, published)"


class Size(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        answers: Under way at once where none is read.
        read_answers: The same where all are read. One at a time: a router that is kept busy gets
            several tokens in one message, which real answers are too slow for.
        tokens: Of each answer.
        rounds: Runs of each kind; the least disturbed one counts.
    """

    answers: int = 16
    read_answers: int = 1
    tokens: int = OUTPUT_TOKENS
    rounds: int = 2


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it."""
    with stack(ENGINES, "--usage-sample=0") as running:
        unread, note = _growth(running, size, size.answers)
    with stack(ENGINES, "--usage-sample=1") as running:
        read, read_note = _growth(running, size, size.read_answers)
    return [
        Figure(
            name="10,000 output tokens",
            value=unread,
            unit="core-ms",
            budget=NOISE_CORE_MS,
            baseline=BASELINE,
            note=note,
        ),
        Figure(
            name="10,000 output tokens, usage read from 1 answer in 50",
            value=read / SAMPLE,
            unit="core-ms",
            budget=NOISE_CORE_MS,
            baseline=BASELINE,
            note=f"a fiftieth of the next line: {read_note}",
        ),
        Figure(
            name="10,000 output tokens, usage read from every answer",
            value=read,
            unit="core-ms",
            baseline=BASELINE,
            note=read_note,
        ),
    ]


def _growth(running: Stack, size: Size, answers: int) -> tuple[float, str]:
    """CPU per answer beyond that of an answer of one token."""
    short = least([_streams(running, 1, answers) for _ in range(size.rounds)])
    long = least([_streams(running, size.tokens, answers) for _ in range(size.rounds)])
    return long.ours - short.ours, f"1 token {short.ours:.2f}, {size.tokens:,} {long.ours:.2f}"


def _streams(running: Stack, tokens: int, answers: int) -> Spent:
    bodies = [
        prompts.completion(
            MODEL, PROMPT_TOKENS, seed, stream=True, max_tokens=tokens, stream_options=_TOLD
        )
        for seed in range(answers)
    ]
    return spend(
        running,
        Load(
            host=running.host,
            port=running.port,
            path=prompts.COMPLETIONS,
            bodies=bodies,
            connections=answers,
        ),
    )


if __name__ == "__main__":
    sys.exit(report({"output_tokens": figures}))
