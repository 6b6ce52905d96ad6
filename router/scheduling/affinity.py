"""Sessions that stay at an endpoint: how session-affinity-filter and -scorer know which one it is.

Either the client carries it, as a token that the router gives it with an answer and that it sends
back; or the router remembers it, by a session id that the client chooses.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import msgspec
from xxhash import xxh3_128_digest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, SessionId
from router.request.types import Request
from router.scheduling.types import Decision, Outcome

MAX_SESSIONS = 100_000
"""Sessions remembered at once: clients choose their ids freely."""

AGENT_IDENTITY = "agent-identity"
"""The attribute that a plugin of this name states; other attributes have no plugin's name."""

_RANKED = re.compile(r"-rank-\d+$")


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class EncodedEndpointHeader(_Camel, frozen=True):
    """
    Attributes:
        header: Header of requests and answers that carries the token.
    """

    header: Annotated[
        str,
        msgspec.Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", examples=["x-session-token"]),
    ] = "x-session-token"


class SessionSource(_Camel, frozen=True):
    """
    Attributes:
        header: Header that names the session.
        attribute: What a producer says of the session, instead.
        producer: That producer's name; empty: the only one, or the one the attribute is named for.
    """

    header: str = ""
    attribute: str = ""
    producer: str = ""

    def __post_init__(self) -> None:
        if bool(self.header) == bool(self.attribute):
            raise ValueError("name exactly one of header and attribute")
        if self.producer and self.header:
            raise ValueError("producer belongs to attribute, not to header")

    @property
    def stated_by(self) -> str:
        """Name of the producer of an attribute; empty: the only one there is."""
        named_for = self.attribute if self.attribute == AGENT_IDENTITY else ""
        return self.producer or named_for

    def read(self, request: Request, facts: Facts) -> str:
        """The session's id; empty where there is none."""
        if self.header:
            return request.headers.get(self.header.lower(), "").strip()
        session = facts.get(SessionId, self.stated_by)
        return session.value if session is not None else ""


class SessionIdConfig(_Camel, frozen=True):
    """
    Attributes:
        sources: Where the session's id is read, in order; empty: the header x-session-id.
        eviction_ttl_seconds: How long a session that is not used stays bound.
        eviction_sweep_seconds: Has no effect: a binding ends when its time is over.
    """

    sources: list[SessionSource] = []
    eviction_ttl_seconds: Annotated[float, msgspec.Meta(gt=0)] = 300.0
    eviction_sweep_seconds: Annotated[float, msgspec.Meta(gt=0)] = 10.0

    @property
    def used(self) -> Sequence[SessionSource]:
        """The sources that count."""
        return self.sources or (SessionSource(header="x-session-id"),)


class AffinityParameters(_Camel, frozen=True):
    """
    Attributes:
        strategy: Who remembers: the client, or the router.
        profile_name: Profile whose pick is remembered; empty: the one that answers.
    """

    strategy: Literal["encoded_endpoint_header", "session_id"] = "encoded_endpoint_header"
    encoded_endpoint_header_config: EncodedEndpointHeader = EncodedEndpointHeader()
    session_id_config: SessionIdConfig = SessionIdConfig()
    profile_name: str = ""

    def affinity(self) -> Affinity:
        """How sessions find back, with none known yet."""
        if self.strategy == "session_id":
            return BoundSessions(self.session_id_config, self.profile_name)
        return CarriedSessions(self.encoded_endpoint_header_config.header, self.profile_name)


class Affinity(Protocol):
    """Knows to which endpoint a session belongs."""

    def needs(self) -> tuple[tuple[type, str], ...]:
        """Facts it reads, and their producers' names."""
        ...

    def find(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Endpoint | None:
        """The session's endpoint; None where there is no session, or it is not among these."""
        ...

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        """The request goes there."""
        ...

    def amended(self, decision: Decision) -> Decision:
        """The decision, with what the client has to carry."""
        ...


class CarriedSessions:
    """The client carries the endpoint's name: base64 of ``namespace/name-rank-N``."""

    def __init__(self, header: str, profile: str) -> None:
        self._header = header.lower()
        self._profile = profile

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ()

    def find(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Endpoint | None:
        token = request.headers.get(self._header, "")
        try:
            name = b64decode(token, validate=True).decode()
        except (binascii.Error, ValueError):
            return None
        return next((e for e in endpoints if name in _names(e)), None) if name else None

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        """Nothing is remembered here."""

    def amended(self, decision: Decision) -> Decision:
        outcome = decision.of(self._profile)
        if outcome is None:
            return decision
        token = b64encode(_names(outcome.endpoint)[0].encode()).decode()
        headers = {**decision.response_headers, self._header: token}
        return msgspec.structs.replace(decision, response_headers=headers)


class BoundSessions:
    """The router remembers each session's endpoint, and binds it again only when that is gone."""

    def __init__(self, config: SessionIdConfig, profile: str) -> None:
        self._sources = config.used
        self._ttl_s = config.eviction_ttl_seconds
        self._profile = profile
        # Digest of a session's id -> its binding, the one used last at the end.
        self._bindings: OrderedDict[bytes, _Binding] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bindings)

    def needs(self) -> tuple[tuple[type, str], ...]:
        return tuple((SessionId, s.stated_by) for s in self._sources if s.attribute)

    def find(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Endpoint | None:
        binding = self._bindings.get(self._session(request, facts))
        if binding is None or binding.used_at + self._ttl_s < facts.now:
            return None
        return next((e for e in endpoints if e.address == binding.address), None)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        now = facts.now
        self._evict(now)
        session, outcome = self._session(request, facts), decision.of(self._profile)
        if not session or outcome is None:
            return
        picked, binding = outcome.endpoint.address, self._bindings.get(session)
        bound = picked if binding is None else binding.address
        if bound != picked and bound in _present(decision, outcome):
            return
        self._bindings[session] = _Binding(picked, now)
        self._bindings.move_to_end(session)
        if len(self._bindings) > MAX_SESSIONS:
            self._bindings.popitem(last=False)

    def amended(self, decision: Decision) -> Decision:
        return decision

    def _session(self, request: Request, facts: Facts) -> bytes:
        """A digest of the id, whose length is the client's choice; empty where there is none."""
        ids = (source.read(request, facts) for source in self._sources)
        session = next((value for value in ids if value), "")
        return xxh3_128_digest(session.encode()) if session else b""

    def _evict(self, now: float) -> None:
        while self._bindings:
            session = next(iter(self._bindings))
            if self._bindings[session].used_at + self._ttl_s >= now:
                return
            del self._bindings[session]


class _Binding(msgspec.Struct, frozen=True):
    """Where a session is, and when it was used last."""

    address: str
    used_at: float


def _names(endpoint: Endpoint) -> tuple[str, str]:
    """What the endpoint is called in a token: with its rank, and as discovery calls it."""
    name = f"{endpoint.namespace}/{endpoint.name}"
    return (name if _RANKED.search(name) else f"{name}-rank-{endpoint.rank}"), name


def _present(decision: Decision, outcome: Outcome) -> frozenset[str]:
    """Every endpoint there was for a profile, also those that were left out for this request."""
    dropped = (*decision.left_out, *outcome.dropped)
    return frozenset(outcome.totals).union(*(d.addresses for d in dropped))
