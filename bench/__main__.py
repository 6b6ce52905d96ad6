"""`python -m bench [NAME ...]`: every figure, or those of some benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from bench import (
    bodies,
    conductor,
    decision,
    dynamo,
    envoy_requests,
    idle,
    index_match,
    kv_events,
    long_prompts,
    output_tokens,
    telemetry,
    tokens,
)
from bench.report import Measure, report

BENCHES: Mapping[str, Measure] = {
    "decision": decision.figures,
    "telemetry": telemetry.figures,
    "index_match": index_match.figures,
    "kv_events": kv_events.figures,
    "idle": idle.figures,
    "tokens": tokens.figures,
    "envoy_requests": envoy_requests.figures,
    "bodies": bodies.figures,
    "output_tokens": output_tokens.figures,
    "long_prompts": long_prompts.figures,
    "conductor": conductor.figures,
    "dynamo": dynamo.figures,
}
"""In the order they run: the short ones first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a figure is over its budget."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    # `choices` would refuse the empty list that asks for all.
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    names = parser.parse_args(arguments).names or list(BENCHES)
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(BENCHES)}")
    return report({name: BENCHES[name] for name in names})


if __name__ == "__main__":
    sys.exit(main())
