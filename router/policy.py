"""What an operator chose for all requests, whatever the configuration of plugins is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from router.pool.discovery.schema import ModelRewrite
from router.request.parse import Limits


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        limits: What requests may be.
        usage_sample: Of so many requests one has its usage read; 0: none.
        subset_hints: Hints of the data plane narrow the candidates.
        rename_answers: Answers to rewritten requests name the client's model.
        explains: Clients may ask why they were sent where they were.
        emit_scores: The data plane is told what each candidate scored.
        objectives: Tells the priority of each objective, by name, as it stands.
        model_rewrites: Tells the rules that send requests to other models, as they stand.
    """

    limits: Limits = Limits()
    usage_sample: int = 50
    subset_hints: bool = True
    rename_answers: bool = False
    explains: bool = False
    emit_scores: bool = False
    objectives: Callable[[], Mapping[str, int]] = dict
    model_rewrites: Callable[[], Sequence[ModelRewrite]] = tuple
