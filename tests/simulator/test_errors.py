from __future__ import annotations

import pytest

from simulator.errors import ApiError
from tests.simulator.recordings import samples

CASES = {
    "err-unknown-model": ApiError.not_found(
        "The model `nope` does not exist. Valid aliases: tiny.", "model"
    ),
    "err-max-tokens-zero": ApiError.bad("max_tokens must be at least 1, got 0.", "max_tokens", 0),
    "err-cache-salt-empty": ApiError.bad(
        "Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt"
    ),
    "err-token-id-out-of-vocab": ApiError.bad("Token id 999999 is out of vocabulary"),
    "err-wrong-content-type": ApiError.invalid(
        "Unsupported Media Type: Only 'application/json' is allowed", None
    ),
    "lora-load-again": ApiError.lora(
        "The lora adapter 'sql2' has already been loaded. If you want to load the adapter in"
        " place, set 'load_inplace' to True."
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_has_the_recorded_status_and_body(name: str) -> None:
    error, sample = CASES[name], samples()[name]
    assert error.status == sample.status
    assert error.body() == sample.response
    assert str(error) == error.message
