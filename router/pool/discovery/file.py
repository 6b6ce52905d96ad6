"""Reads an endpoints file: which endpoints there are, and what is wrong with the others.

A file that cannot be understood is refused as a whole. An endpoint whose address or port makes no
sense is left out with a warning, and the others work. Nothing is resolved here: the caller says
which IP addresses the hostnames have.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping

import msgspec
import yaml

from router.config import nearest, nulls
from router.pool.discovery.hosts import Named
from router.pool.discovery.schema import EndpointEntry, EndpointsFile, KvEventsEntry, ModelRewrite
from router.pool.endpoint import Endpoint, KvEvents, Role

MAX_FILE_BYTES = 1024 * 1024
"""llm-d's limit for the same file."""

_HOSTNAME = re.compile(
    r"(?=.{1,253}$)([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*"
    # A last label of digits only is a mistyped IPv4 address, which a resolver might still take.
    r"(?![0-9]+\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?"
)
_ROLES = [role.value for role in Role]
_RANK_SUFFIX = re.compile(r"-rank-([0-9]{1,5})$")


class DiscoveryError(Exception):
    """The endpoints file cannot be used. The message names the file and the place in it."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that can be used once its host is an IP address.

    Attributes:
        place: Where it stands in the file, ``$.endpoints[0]``.
        is_ip: The host is an IP address; otherwise it is a hostname.
        host: IPv6 without brackets, in its shortest form.
    """

    place: str
    host: str
    is_ip: bool
    port: int
    endpoint: Endpoint


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoints file says.

    Attributes:
        entries: Usable endpoints, in the order of the file.
        objectives: Priority by name.
        model_rewrites: Rules in order of precedence.
        warnings: Entries that were left out, and why; and those that no filter by role keeps.
    """

    entries: tuple[Entry, ...] = ()
    objectives: Mapping[str, int] = {}
    model_rewrites: tuple[ModelRewrite, ...] = ()
    warnings: tuple[str, ...] = ()

    def hostnames(self) -> frozenset[str]:
        """The hosts that must be resolved."""
        return frozenset(entry.host for entry in self.entries if not entry.is_ip)


def parse(text: bytes, path: str) -> Listing:
    """An endpoints file in YAML or JSON. Raises DiscoveryError."""
    if len(text) > MAX_FILE_BYTES:
        raise DiscoveryError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    try:
        data = _load(text)
        if data is None:
            raise DiscoveryError("is empty; without endpoints it says `endpoints: []`")
        file = _converted(data)
        judged = [_judge(entry, f"$.endpoints[{i}]") for i, entry in enumerate(file.endpoints)]
    except yaml.MarkedYAMLError as error:
        line = f" - at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DiscoveryError(f"{path}: not valid YAML: {error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise DiscoveryError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    except (msgspec.DecodeError, DiscoveryError) as error:
        raise DiscoveryError(f"{path}: {error}") from error
    except RecursionError as error:
        raise DiscoveryError(f"{path}: nested too deeply") from error
    entries, repeated = _last_of_each_name(e for e in judged if isinstance(e, Entry))
    return Listing(
        entries=entries,
        objectives=file.objectives,
        model_rewrites=file.model_rewrites,
        warnings=(*(e for e in judged if isinstance(e, str)), *repeated, *_odd_roles(entries)),
    )


def locate(
    entries: Iterable[Entry], addresses: Mapping[str, Named]
) -> tuple[tuple[Endpoint, ...], tuple[str, ...]]:
    """The endpoints whose host is known, with warnings for the rest.

    `addresses` maps a hostname to its IP addresses. Of two on one address the first stays.
    """
    found: dict[str, Endpoint] = {}
    warnings = []
    for entry in entries:
        named = {entry.host: ""} if entry.is_ip else addresses.get(entry.host, {})
        if not named:
            warnings.append(f"{entry.place}: left out: {entry.host} does not resolve")
        if len(named) > 1 and not _follow(entry.host, entry.endpoint.kv_events):
            warnings.append(
                f"{entry.place}.kvEvents: left out: one stream is not that of {len(named)} engines;"
                f" name its host {entry.host}, too"
            )
            entry = msgspec.structs.replace(entry, endpoint=_unheard(entry.endpoint))
        for host, suffix in named.items():
            endpoint = _at(entry, host, suffix)
            if endpoint.address in found:
                warnings.append(
                    f"{entry.place}: left out: {found[endpoint.address].name} has the same"
                    f" address, {endpoint.address}"
                )
                continue
            found[endpoint.address] = endpoint
    return tuple(found.values()), tuple(warnings)


def _at(entry: Entry, host: str, suffix: str) -> Endpoint:
    """The endpoint at one address of its host; its events are those at that address."""
    bracketed = f"[{host}]" if ":" in host else host
    events = entry.endpoint.kv_events
    if not entry.is_ip:
        events = tuple(_moved(source, entry.host, bracketed) for source in events)
    return msgspec.structs.replace(
        entry.endpoint,
        name=entry.endpoint.name + suffix,
        address=f"{bracketed}:{entry.port}",
        kv_events=events,
    )


def _follow(hostname: str, sources: Iterable[KvEvents]) -> bool:
    """Each address of the hostname has events of its own."""
    return all(source.endpoint.startswith(f"tcp://{hostname}:") for source in sources)


def _unheard(endpoint: Endpoint) -> Endpoint:
    return msgspec.structs.replace(endpoint, kv_events=())


def _moved(source: KvEvents, hostname: str, address: str) -> KvEvents:
    """Where its host is the hostname: at that address of it."""
    before, now = f"tcp://{hostname}:", f"tcp://{address}:"
    replay = source.replay and source.replay.replace(before, now)
    return msgspec.structs.replace(
        source, endpoint=source.endpoint.replace(before, now), replay=replay
    )


class _Loader(yaml.CSafeLoader):
    """Refuses a key that stands twice, where YAML keeps the last one silently."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        # An explicit tag can bring any node here; the base class refuses all others.
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, str) and key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key!r} stands twice", key_node.start_mark
                    )
                seen.add(str(key))
        return super().construct_mapping(node, deep)


def _load(text: bytes) -> object:
    try:
        return yaml.load(text, _Loader)
    except (yaml.scanner.ScannerError, yaml.parser.ParserError) as error:
        # Some JSON is no YAML, such as JSON indented with tabs.
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise error from None


def _converted(data: object) -> EndpointsFile:
    """Raises DiscoveryError that tells the place and what was probably meant."""
    try:
        return msgspec.convert(nulls.left_out(data, EndpointsFile), EndpointsFile)
    except msgspec.ValidationError as error:
        raise DiscoveryError(nearest.with_suggestion(str(error), EndpointsFile)) from error


def _odd_roles(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        role = entry.endpoint.role
        if role is not None and role not in _ROLES:
            clause = nearest.suggest(role, _ROLES)
            yield f"{entry.place}.labels: no filter keeps the role {role!r}; {clause}"


def _judge(entry: EndpointEntry, place: str) -> Entry | str:
    """A usable endpoint, or the warning that says why it is none. Raises DiscoveryError."""
    port = _port(entry.port)
    if port is None:
        return f"{place}.port: {entry.name} left out: {entry.port!r} is no port from 1 to 65535"
    host, is_ip = _host(entry.address)
    if host is None:
        return (
            f"{place}.address: {entry.name} left out:"
            f" {entry.address!r} is neither an IP address nor a hostname"
        )
    rank = entry.rank if entry.rank is not None else _rank_of(entry.name)
    endpoint = Endpoint(
        name=entry.name,
        namespace=entry.namespace,
        host=host,
        address="",
        labels=entry.labels,
        rank=rank,
        kv_events=_kv_events(entry, rank, place),
    )
    return Entry(place=place, host=host, is_ip=is_ip, port=port, endpoint=endpoint)


def _last_of_each_name(entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Of entries with one name the last stays; a warning names each other one."""
    usable: dict[tuple[str, str], Entry] = {}
    warnings = []
    for entry in entries:
        key = (entry.endpoint.namespace, entry.endpoint.name)
        if key in usable:
            name = "/".join(key)
            warnings.append(f"{usable[key].place}: left out: {entry.place} is {name}, too")
        usable[key] = entry
    return tuple(usable.values()), tuple(warnings)


def _port(port: int | str) -> int | None:
    text = str(port)
    number = int(text) if re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) else 0
    return number if 1 <= number <= 65535 else None


def _host(address: str) -> tuple[str | None, bool]:
    """Host and whether it is an IP address; no host where the text is neither."""
    bare = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        # A zone belongs to one machine's network interfaces, and Envoy may run on another.
        return (None, False) if "%" in bare else (str(ipaddress.ip_address(bare)), True)
    except ValueError:
        return (address.lower(), False) if _HOSTNAME.fullmatch(address) else (None, False)


def _rank_of(name: str) -> int:
    match = _RANK_SUFFIX.search(name)
    return int(match[1]) if match else 0


def _kv_events(entry: EndpointEntry, own_rank: int, place: str) -> tuple[KvEvents, ...]:
    given = entry.kv_events
    sources: dict[int, KvEvents] = {}
    for source in (given,) if isinstance(given, KvEventsEntry) else given:
        rank = source.rank if source.rank is not None else own_rank
        if rank in sources:
            raise DiscoveryError(f"rank {rank} stands twice - at `{place}.kvEvents`")
        sources[rank] = KvEvents(endpoint=source.endpoint, replay=source.replay, rank=rank)
    return tuple(sources.values())
