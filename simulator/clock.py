"""The timing model: how long an engine step takes, given what it computes. It reads no clock."""

from __future__ import annotations

import msgspec

PREFILL_S_PER_TOKEN = 20e-6
"""50,000 uncached prompt tokens a second: an 8B model on one large GPU, give or take."""

DECODE_S_PER_TOKEN = 5e-3
"""200 output tokens a second for a lone request."""

CROWDING = 0.01
"""How much longer a decode step takes per further sequence in it, as a share of a lone one."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        prefill_s_per_token: Seconds per prompt token that is computed, cached ones are free.
        decode_s_per_token: Seconds per output token after the first of a lone request.
        crowding: Share of `decode_s_per_token` that each further decoding sequence adds to a step.
    """

    prefill_s_per_token: float = PREFILL_S_PER_TOKEN
    decode_s_per_token: float = DECODE_S_PER_TOKEN
    crowding: float = CROWDING

    def step_s(self, prefill_tokens: int, decoding: int) -> float:
        """How long a step takes that computes so many prompt tokens and so many next tokens."""
        prefill_s = prefill_tokens * self.prefill_s_per_token
        if decoding == 0:
            return prefill_s
        return prefill_s + self.decode_s_per_token * (1.0 + self.crowding * (decoding - 1))
