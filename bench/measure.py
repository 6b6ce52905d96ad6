"""One measured run: a load against a stack, and what each process spent on it. IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bench.load import Load, Outcome, run
from bench.stack import Stack, StackError


class Spent(msgspec.Struct, frozen=True):
    """CPU time of one run.

    Attributes:
        core_ms: Process -> CPU milliseconds per request.
        outcome: What the client saw.
    """

    core_ms: Mapping[str, float]
    outcome: Outcome

    @property
    def ours(self) -> float:
        """Router and sidecar: what a budget is about."""
        return self.core_ms["router"] + self.core_ms["sidecar"]

    @property
    def rate_per_router_core(self) -> float:
        """Requests per second of the router's CPU time."""
        return 1e3 / self.core_ms["router"]

    def shares(self) -> str:
        """Who spent what, for a note."""
        return ", ".join(f"{name} {value:.3g}" for name, value in self.core_ms.items())


def spend(stack: Stack, load: Load) -> Spent:
    """Run a load and see who spends what on it.

    Raises StackError where a request was routed without its tokens: that would be too cheap.
    """
    before, usage = stack.tokenized(), stack.usage()
    outcome = run(load)
    used = usage.used_s()
    count = len(load.bodies)
    tokenized = stack.tokenized() - before
    if tokenized != count:
        raise StackError(f"{count - tokenized} of {count} requests had no tokens")
    return Spent({name: seconds * 1e3 / count for name, seconds in used.items()}, outcome)


def least(runs: Sequence[Spent]) -> Spent:
    """The run that was disturbed least: on a shared machine noise only ever adds."""
    return min(runs, key=lambda run: run.ours)
