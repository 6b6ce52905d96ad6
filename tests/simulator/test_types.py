from __future__ import annotations

import msgspec

from simulator.types import FinishReason


def test_finish_reasons_are_written_in_the_words_of_the_api() -> None:
    reasons = [FinishReason.STOP, FinishReason.LENGTH]
    assert msgspec.json.encode(reasons) == b'["stop","length"]'
