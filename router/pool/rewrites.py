"""Which model a request is sent to: what its header asks for, then what the rules say."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from router.pool.discovery.schema import ModelRewrite, RewriteTarget

BY_HEADER = "header"
"""What a choice is called that no rule made."""


class Choice(msgspec.Struct, frozen=True):
    """A model to send a request to.

    Attributes:
        model: Its name.
        rule: Place of the rule in its file, or `BY_HEADER`.
    """

    model: str
    rule: str


def choose(
    rules: Sequence[ModelRewrite], model: str, wanted: str, rng: random.Random
) -> Choice | None:
    """What a request for `model` whose header wants `wanted` (empty: nothing) is sent to.

    A rule for the very name wins over one for every model, and a rule over the header; of several
    the first counts (llm-d).
    """
    place = _match(rules, model) if rules else None
    if place is None:
        return Choice(wanted, BY_HEADER) if wanted else None
    return Choice(_drawn(rules[place].targets, rng), f"modelRewrites[{place}]")


def names(rules: Sequence[ModelRewrite]) -> frozenset[str]:
    """Every model name that the rules mention."""
    asked = {match.model.value for rule in rules for match in rule.matches}
    return frozenset(asked | {target.model_rewrite for rule in rules for target in rule.targets})


def _match(rules: Sequence[ModelRewrite], model: str) -> int | None:
    exact = (i for i, rule in enumerate(rules) if any(m.model.value == model for m in rule.matches))
    generic = (i for i, rule in enumerate(rules) if not rule.matches)
    return next(exact, next(generic, None))


def _drawn(targets: Sequence[RewriteTarget], rng: random.Random) -> str:
    """By weight; without any weight each is as likely, beside one that has none it never comes."""
    weights = [target.weight or 0 for target in targets]
    if not any(weights):
        return rng.choice(targets).model_rewrite
    return rng.choices(targets, weights)[0].model_rewrite
