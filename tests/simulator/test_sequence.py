from __future__ import annotations

from simulator.sequence import Sequence
from simulator.types import FinishReason
from tests.simulator import make


def test_output_tokens_are_those_after_the_prompt() -> None:
    sequence = Sequence(make.request([1, 2, 3]), now_s=0.0)
    sequence.tokens += [7, 8]
    assert sequence.output_tokens == 2


def test_an_account_splits_the_time_at_admission_and_at_the_first_token() -> None:
    sequence = Sequence(make.request([1, 2, 3], max_tokens=9), now_s=1.0)
    sequence.admitted_s, sequence.first_token_s, sequence.cached_tokens = 3.0, 7.0, 2
    account = sequence.account(FinishReason.STOP, now_s=15.0)
    times = (account.queue_s, account.prefill_s, account.decode_s, account.e2e_s)
    assert times == (2.0, 4.0, 8.0, 14.0)
    assert (account.prompt_tokens, account.cached_tokens, account.max_tokens) == (3, 2, 9)
