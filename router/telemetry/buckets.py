"""Upper ends of histogram buckets; llm-d's where it has them, so that its dashboards fit."""

from __future__ import annotations

DURATION_S = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45,
    60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
)  # fmt: skip
"""Of whole requests, and of the time to a first token."""

PLUGIN_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of what one plugin takes."""

DECISION_S = (*PLUGIN_S, 0.2, 0.5, 1, 2)

PER_TOKEN_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

TOKENS = (1, *(2**n for n in range(3, 21)))

MATCHED_TOKENS = (0, *(2**n for n in range(4, 21)))

BYTES = tuple(2**n for n in range(6, 31))
"""Of requests."""

ANSWER_BYTES = (1, *(2**n for n in range(3, 17)))

RATIOS = tuple(n / 10 for n in range(11))

REQUEST_WORK_S = (
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
)  # fmt: skip
"""Of what the router spends on a request."""

ANSWER_WORK_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5,
)  # fmt: skip
"""Of what it spends on an answer."""

STREAM_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600)
"""Of ext_proc streams."""

MATCHED_BYTES = (0, *(2**n for n in range(4, 17)))
