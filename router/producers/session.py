"""session-id-producer: which session a request belongs to, from a header or a cookie."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, SessionId
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision


class SessionIdParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        header_name: Header that names the session.
        cookie_name: Cookie that does.
    """

    header_name: str = ""
    cookie_name: str = ""

    def __post_init__(self) -> None:
        if bool(self.header_name) == bool(self.cookie_name):
            raise ValueError("name exactly one of headerName and cookieName")


class SessionIds:
    """States SessionId where the request has one."""

    def __init__(self, name: str, parameters: SessionIdParameters) -> None:
        self.name = name
        self._header = parameters.header_name.lower()
        self._cookie = parameters.cookie_name

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        headers = request.headers
        if self._header:
            value = headers.get(self._header, "").strip()
        else:
            value = _cookie(headers.get("cookie", ""), self._cookie)
        if value:
            facts.put(SessionId(value), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        return None


def _cookie(header: str, name: str) -> str:
    """The value of the first cookie of that name; clients send the most specific one first."""
    for pair in header.split(";"):
        key, _, value = pair.partition("=")
        if key.strip() == name:
            return value.strip().strip('"')
    return ""
