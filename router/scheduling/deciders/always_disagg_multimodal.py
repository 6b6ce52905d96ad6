"""always-disagg-multimodal-decider: media of a prompt are encoded elsewhere."""

from __future__ import annotations

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, Tokens
from router.request.media import has_media
from router.request.types import Request


class AlwaysDisaggMultimodalDecider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters. Yes for a prompt that carries media.

    Its tokens tell, and where nobody could state them, its body.
    """

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((Tokens, ""),)

    def disaggregates(self, request: Request, endpoint: Endpoint | None, facts: Facts) -> bool:
        tokens = facts.get(Tokens)
        return has_media(request) if tokens is None else bool(tokens.media)
