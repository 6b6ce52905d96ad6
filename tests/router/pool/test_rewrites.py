from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from router.pool.discovery.schema import ModelRewrite
from router.pool.rewrites import BY_HEADER, Choice, choose, names


def rules(*given: Any) -> list[ModelRewrite]:
    return msgspec.convert(list(given), list[ModelRewrite])


def rule(*targets: Any, of: tuple[str, ...] = ()) -> dict[str, Any]:
    """To each target, a name or ``(name, weight)``, for the models `of`."""
    named = [
        {"modelRewrite": t} if isinstance(t, str) else {"modelRewrite": t[0], "weight": t[1]}
        for t in targets
    ]
    return {"targets": named, "matches": [{"model": {"value": m}} for m in of]}


@pytest.mark.parametrize(
    ("given", "wanted", "choice"),
    [
        ([], "", None),
        ([], "h", Choice("h", BY_HEADER)),
        ([rule("t", of=("other",))], "", None),
        ([rule("t", of=("other",))], "h", Choice("h", BY_HEADER)),
        ([rule("t", of=("x", "m"))], "h", Choice("t", "modelRewrites[0]")),
        ([rule("all"), rule("t", of=("m",))], "", Choice("t", "modelRewrites[1]")),
        ([rule("all"), rule("second")], "", Choice("all", "modelRewrites[0]")),
        ([rule("t", of=("m",)), rule("u", of=("m",))], "", Choice("t", "modelRewrites[0]")),
    ],
    ids=[
        "no-rules",
        "header",
        "no-match",
        "header-without-match",
        "rule-over-header",
        "exact-over-generic",
        "first-generic",
        "first-exact",
    ],
)
def test_who_decides(given: list[Any], wanted: str, choice: Choice | None) -> None:
    assert choose(rules(*given), "m", wanted, random.Random(1)) == choice


@pytest.mark.parametrize(
    ("targets", "shares"),
    [
        ((("a", 1), ("b", 3)), {"a": 0.25, "b": 0.75}),
        (("a", "b"), {"a": 0.5, "b": 0.5}),
        ((("a", 2), "never"), {"a": 1.0}),
    ],
    ids=["weights", "none", "mixed"],
)
def test_targets_are_drawn_by_weight(targets: Any, shares: dict[str, float]) -> None:
    rng = random.Random(5)
    drawn = Counter(
        choice.model
        for _ in range(4000)
        if (choice := choose(rules(rule(*targets)), "m", "", rng)) is not None
    )
    assert drawn.keys() == shares.keys()
    for name, share in shares.items():
        assert drawn[name] / 4000 == pytest.approx(share, abs=0.03)


def test_every_name_of_the_rules_is_known() -> None:
    assert names(rules(rule("t", ("u", 2), of=("m", "n")), rule("v"))) == set("tumnv")
