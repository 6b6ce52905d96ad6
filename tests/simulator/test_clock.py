from __future__ import annotations

import pytest

from simulator.clock import Timing


def test_a_step_takes_longer_per_uncached_prompt_token() -> None:
    assert Timing().step_s(prefill_tokens=1000, decoding=0) == pytest.approx(0.020)


def test_a_lone_request_gets_a_token_every_5_ms() -> None:
    assert Timing().step_s(prefill_tokens=0, decoding=1) == pytest.approx(0.005)


def test_company_slows_decoding_mildly() -> None:
    timing = Timing(decode_s_per_token=0.010, crowding=0.02)
    assert timing.step_s(prefill_tokens=0, decoding=11) == pytest.approx(0.012)


def test_a_step_that_does_both_takes_the_time_of_both() -> None:
    timing = Timing(prefill_s_per_token=0.001, decode_s_per_token=0.010)
    assert timing.step_s(prefill_tokens=5, decoding=1) == pytest.approx(0.015)
