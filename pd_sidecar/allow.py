"""Which engines the proxy may call: a header must not make it call just any address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

import msgspec
import yaml

ROLE_LABEL = "llm-d.ai/role"

ROLES = frozenset(
    {"prefill", "encode", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"}
)
"""Roles of engines that a decode engine has work done by."""

Address = tuple[str, int]


class ListingError(Exception):
    """An endpoints file that cannot be used."""


class _Entry(msgspec.Struct):
    address: str
    port: int | str
    labels: Mapping[str, str] = {}


class _File(msgspec.Struct):
    endpoints: tuple[_Entry, ...]


def parse_address(text: str) -> Address | None:
    """Host and port of ``host:port`` or ``[ipv6]:port``; None for anything else."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if not colon or not bare or (":" in bare) is not bracketed:
        return None
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        return None
    return _shortest(bare), int(port)


def listed(text: bytes) -> frozenset[Address]:
    """The engines of an endpoints file that prefill or encode. Raises ListingError.

    The router judges such a file entry by entry; here an entry without a usable port is no engine.
    """
    try:
        file = msgspec.convert(yaml.load(text, yaml.CSafeLoader), _File)
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise ListingError(" ".join(str(error).split())) from error
    named = (e for e in file.endpoints if e.labels.get(ROLE_LABEL) in ROLES)
    found = (parse_address(f"{_bracketed(e.address)}:{e.port}") for e in named)
    return frozenset(address for address in found if address is not None)


def is_ip(host: str) -> bool:
    """Whether a host needs no resolving."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class AllowList:
    """Addresses that may be called, as given and as resolved. An open one lets any pass."""

    def __init__(self, given: Iterable[Address] = (), *, everything: bool = False) -> None:
        self._given = frozenset(given)
        self._listed: frozenset[Address] = frozenset()
        self._resolved: frozenset[Address] = frozenset()
        self._everything = everything

    @property
    def named(self) -> frozenset[Address]:
        """What was given and listed, hostnames as they are."""
        return self._given | self._listed

    def list(self, addresses: frozenset[Address]) -> None:
        """Replace what a file lists."""
        self._listed = addresses

    def resolve(self, found: Mapping[str, Iterable[str]]) -> None:
        """Take over the IP addresses of the hostnames among `named`."""
        self._resolved = frozenset(
            (_shortest(ip), port) for host, port in self.named for ip in found.get(host, ())
        )

    def allows(self, address: Address) -> bool:
        """Whether it may be called."""
        return self._everything or address in self.named or address in self._resolved


def _shortest(host: str) -> str:
    return str(ipaddress.ip_address(host)) if is_ip(host) else host.lower()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
