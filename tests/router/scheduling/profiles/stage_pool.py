"""Endpoints and profiles with roles, for tests of handlers that run several profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from router.pool.endpoint import ROLE_LABEL, Endpoint, Role
from router.producers.facts import Facts, Peer
from router.request.types import Request
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.types import NamedFilter, NamedScorer, Profile


class RoleFilter(msgspec.Struct, frozen=True):
    """Keeps endpoints of these roles, and notes the peer it was told of."""

    roles: frozenset[str]
    peers: list[str | None]
    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "not wanted"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        peer = facts.get(Peer)
        self.peers.append(peer.endpoint.address if peer else None)
        return [e for e in endpoints if e.role in self.roles]


class Busy(msgspec.Struct, frozen=True):
    """Finds everybody too busy."""

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "not wanted"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return []


class FirstName(msgspec.Struct, frozen=True):
    """Prefers addresses early in the alphabet."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        order = sorted(e.address for e in endpoints)
        return [1 - order.index(e.address) / len(order) for e in endpoints]


PREFILL = frozenset({Role.PREFILL, Role.BOTH})
DECODE = frozenset({Role.DECODE, Role.BOTH})
ENCODE = frozenset({Role.ENCODE})


def profile(name: str, roles: frozenset[str], picks: int = 1, *, busy: bool = False) -> Profile:
    filters = [NamedFilter(f"{name}-roles", RoleFilter(roles, []))]
    if busy:
        filters.append(NamedFilter("busy", Busy()))
    scorers = (NamedScorer("first", FirstName()),)
    return Profile(name, tuple(filters), scorers, MaxScorePicker(max_num_of_endpoints=picks))


def peers(profile_: Profile) -> list[str | None]:
    """The peers that a profile's plugins were told of, one for each run."""
    plugin = profile_.filters[0].plugin
    assert isinstance(plugin, RoleFilter)
    return plugin.peers


def profiles() -> dict[str, Profile]:
    return {
        "prefill": profile("prefill", PREFILL),
        "encode": profile("encode", ENCODE, picks=2),
        "decode": profile("decode", DECODE),
        "any": profile("any", frozenset(Role)),
    }


def endpoints(**roles: str) -> list[Endpoint]:
    """One endpoint each: `p1="prefill"` is p1:1."""
    return [make_one(f"{name}:1", role) for name, role in roles.items()]


def make_one(address: str, role: str) -> Endpoint:
    labels: Mapping[str, str] = {ROLE_LABEL: role}
    return Endpoint(name=address, address=address, labels=labels)
