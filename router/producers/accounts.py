"""On whose account a request goes."""

from __future__ import annotations

from router.extproc import headers as names
from router.producers.facts import Facts, FairnessId
from router.request.types import Request

DEFAULT_FLOW = "default-flow"
"""On whose account requests go that do not say it; llm-d's word."""

MAX_ID = 256
"""Characters of an account's name that are kept."""


def fairness_id(request: Request, facts: Facts) -> str:
    """What the request says itself counts first."""
    given = names.text_of(request.headers, names.FAIRNESS_IDS)
    if not given:
        stated = facts.get(FairnessId)
        given = stated.value if stated is not None else DEFAULT_FLOW
    return given[:MAX_ID]
