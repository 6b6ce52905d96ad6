"""Every way a request can fail, and what Envoy tells the client.

    RouterError               status   x-llm-d-request-dropped-reason
    ├── BadRequest            400      -
    ├── NotCached             412      -
    ├── BodyTooLarge          413      -
    ├── NoEndpoints           503      rejected-no-endpoints
    ├── Saturated             429      rejected-saturated
    ├── ShuttingDown          503      rejected-shutting-down
    └── TokensUnknown         503      -                        (only on /debug/match)

The core raises; only router.extproc.reply turns an error into a response. What degrades instead of
failing (no tokens, no events) is no error: see router.producers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class RouterError(Exception):
    """Base of what this package raises on purpose; its text is shown to the client.

    Attributes:
        stage: The stage that had nobody, where a request has several.
        dropped: What each step took out until nobody was left, for the record.
        answer_headers: Set on the refusal besides.
    """

    status: ClassVar[int] = 500
    kind: ClassVar[str] = "InternalServerError"
    dropped_reason: ClassVar[str | None] = None

    stage: str = ""
    dropped: Sequence[object] = ()
    answer_headers: Mapping[str, str] = {}


class BadRequest(RouterError):
    """The body is not what its path promises."""

    status = 400
    kind = "BadRequestError"


class NotCached(RouterError):
    """The client wants an answer only from a cache, and the endpoint picked holds nothing."""

    status = 412
    kind = "PreconditionFailed"


class BodyTooLarge(RouterError):
    """The body exceeds the configured cap."""

    status = 413
    kind = "RequestEntityTooLarge"


class NoEndpoints(RouterError):
    """The pool is empty, or role and label filters leave nobody."""

    status = 503
    kind = "ServiceUnavailable"
    dropped_reason = "rejected-no-endpoints"


class Saturated(RouterError):
    """Load filters removed every candidate of a pool that has some."""

    status = 429
    kind = "TooManyRequests"
    dropped_reason = "rejected-saturated"


class ShuttingDown(RouterError):
    """The router drains and takes no new request."""

    status = 503
    kind = "ServiceUnavailable"
    dropped_reason = "rejected-shutting-down"


class TokensUnknown(RouterError):
    """Somebody asks about a prompt that nobody can tokenize now."""

    status = 503
    kind = "ServiceUnavailable"
