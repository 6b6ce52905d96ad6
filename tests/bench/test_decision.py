from __future__ import annotations

from bench import decision


def test_a_decision_is_measured_for_each_size_of_pool() -> None:
    small, large = decision.figures(counts=(2, 40), runs=3)
    assert (small.name, large.name) == ("decision, 2 endpoints", "decision, 40 endpoints")
    assert 0 < small.value < large.value
