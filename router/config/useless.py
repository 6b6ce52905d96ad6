"""What a configuration asks for that cannot have an effect: allowed, and probably no wish."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from router import catalog
from router.config import admission, deprecated, notes
from router.config.inactive import INACTIVE, Role
from router.config.notes import Note
from router.config.plugins import Plugin, needs
from router.config.schema import EndpointPickerConfig
from router.producers.facts import EncoderCacheMatch, PrefixMatch, SessionId
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.types import Profile, ProfileHandler

_RATED: Collection[str] = {**catalog.FILTERS, **catalog.SCORERS, **catalog.PICKERS}
"""Types that act only as members of a profile."""

_SOURCES_ONLY = ("models-data-source", "endpoint-notification-source")
"""Sources that are not in force by being declared. Others are looked at with the data layer."""

_FOR_OTHERS: Mapping[str, Sequence[type]] = {
    "session-id-producer": (SessionId,),
    "mm-embeddings-cache-producer": (EncoderCacheMatch,),
}
"""Producers that do nothing but state these."""

_DEFAULT_MATCHES = "approx-prefix-cache-producer"
"""Whose matches count, of several, for who names none."""


def plugins(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> Iterator[Note]:
    """Plugins that do not run, or stand where they do nothing."""
    for plugin in instances.values():
        if plugin.type in INACTIVE:
            said = f"{plugin.name} does not run: {INACTIVE[plugin.type].why}"
            yield notes.inactive(said, plugin.path)
    if not file.scheduling_profiles:
        return
    used = {p.plugin_ref for profile in file.scheduling_profiles for p in profile.plugins}
    detector = deprecated.detector(file)
    used |= {detector[0].plugin_ref if detector else admission.DETECTOR}
    kinds = [{instances[p.plugin_ref].type for p in e.plugins} for e in file.scheduling_profiles]
    if not all(kind & set(catalog.PICKERS) for kind in kinds):
        # A profile without a picker gets the one that is declared.
        used |= {plugin.name for plugin in instances.values() if plugin.type in catalog.PICKERS}
    for plugin in instances.values():
        if plugin.type in _RATED and plugin.name not in used:
            yield notes.warning(f"{plugin.name!r} is in no profile", plugin.path)
    yield from _misplaced(file, instances)


def unreferenced(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> Iterator[Note]:
    """Plugins that act only where a section of the file names them, and none does."""
    parsers = [entry.plugin_ref for entry, _ in deprecated.parsers(file)]
    sources = {entry.plugin_ref for entry in file.data_layer.sources}
    discovery = file.data_layer.discovery
    found = {discovery.plugin_ref} if discovery else set()
    for plugin in instances.values():
        said = None
        if plugin.type in catalog.DISCOVERIES and plugin.name not in found:
            said = "finds no endpoints: dataLayer.discovery does not name it"
        elif plugin.type in catalog.PARSERS and parsers and plugin.name not in parsers:
            said = "reads nothing: requestHandler.parsers does not list it"
        elif plugin.type in _SOURCES_ONLY and plugin.name not in sources:
            said = "is in no source: dataLayer.sources does not list it"
        if said is not None:
            yield notes.warning(f"{plugin.name!r} {said}", plugin.path)


def unscored(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> Iterator[Note]:
    """Profiles whose scorers all do not run."""
    for i, profile in enumerate(file.scheduling_profiles):
        kinds = {instances[member.plugin_ref].type for member in profile.plugins}
        dormant = [k for k in kinds if k in INACTIVE and INACTIVE[k].role is Role.SCORER]
        if dormant and not kinds & set(catalog.SCORERS):
            said = (
                f"no scorer of profile {profile.name!r} runs: every endpoint is as good as another"
            )
            yield notes.warning(said, f"$.schedulingProfiles[{i}]")


def _misplaced(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> Iterator[Note]:
    for i, profile in enumerate(file.scheduling_profiles):
        seen: set[str] = set()
        for k, member in enumerate(profile.plugins):
            path = f"$.schedulingProfiles[{i}].plugins[{k}]"
            kind = instances[member.plugin_ref].type
            if member.plugin_ref in seen:
                what = "its weights add up" if kind in catalog.SCORERS else "once is enough"
                said = f"{member.plugin_ref!r} stands twice in this profile: {what}"
                yield notes.warning(said, path)
            seen.add(member.plugin_ref)
            if kind not in _RATED and kind not in INACTIVE:
                said = f"{member.plugin_ref!r} is no filter, scorer or picker: no part of a profile"
                yield notes.warning(said, path)
            if member.weight is not None and kind not in catalog.SCORERS and kind not in INACTIVE:
                said = f"{member.plugin_ref!r} is no scorer: its weight has no effect"
                yield notes.warning(said, path)


def producers(running: Sequence[Plugin], notified: Collection[str]) -> Iterator[Note]:
    """Producers that nothing feeds, or that nothing can match."""
    estimated = any(
        isinstance(p.value, TokenParameters) and p.value.estimate is not None for p in running
    )
    for producer in running:
        if isinstance(producer.value, PrecisePrefixParameters):
            if estimated:
                said = f"{producer.name!r} can never match: estimated token ids are no engine's"
                yield notes.warning(said, producer.path)
            yield from _precise(producer, producer.value, producer.name in notified)


def _precise(
    producer: Plugin, parameters: PrecisePrefixParameters, notified: bool
) -> Iterator[Note]:
    events = parameters.kv_events_config
    if not notified and not events.zmq_endpoint:
        yield notes.warning(
            f"{producer.name!r} hears only engines whose endpoint names its kvEvents: no"
            " endpoint-notification-source feeds it and it has no kvEventsConfig.zmqEndpoint",
            producer.path,
        )
    tokens = parameters.token_processor_config.tokens
    if tokens & (tokens - 1):
        yield notes.warning(
            f"{producer.name!r} indexes blocks of {tokens} tokens: blocks of engines have 16, 32,"
            f" 64 or another power of two, and none of those is a multiple of {tokens}",
            producer.path,
        )


def deciders(
    instances: Mapping[str, Plugin], profiles: Mapping[str, Profile], running: Sequence[Plugin]
) -> Iterator[Note]:
    """Deciders that always say no, or go by other matches than the profiles they decide about."""
    for plugin in instances.values():
        if isinstance(plugin.value, PrefixBasedPdDecider) and not plugin.value.non_cached_tokens:
            said = f"{plugin.name!r} always says no: nonCachedTokens is 0"
            yield notes.warning(said, plugin.path)
    makers = _makers(running)
    if len(makers) < 2:
        return
    default = _default(makers)
    members: list[object] = [f.plugin for p in profiles.values() for f in p.filters]
    members += [s.plugin for p in profiles.values() for s in p.scorers]
    scored = {name or default for member in members for name in _matches(member)}
    for decider in instances.values():
        if decider.type not in catalog.DECIDERS:
            continue
        for name in {name or default for name in _matches(decider.value)} - scored:
            if scored:
                yield notes.warning(
                    f"{decider.name!r} decides by the matches of {name!r}, while profiles go by"
                    f" those of {', '.join(sorted(scored))}: set prefixMatchInfoProducerName",
                    decider.path,
                )


def unread(
    instances: Mapping[str, Plugin],
    profiles: Mapping[str, Profile],
    handler: ProfileHandler,
    running: Sequence[Plugin],
) -> Iterator[Note]:
    """Producers whose facts nobody goes by; of matches, while somebody goes by another one's."""
    members: list[object] = [f.plugin for p in profiles.values() for f in p.filters]
    members += [s.plugin for p in profiles.values() for s in p.scorers]
    readers = [*members, handler, *(p.parameters for p in running)]
    asked = {need for reader in readers for need in needs(reader)}
    for producer in running:
        facts = _FOR_OTHERS.get(producer.type, ())
        if facts and not any(
            (fact, name) in asked for fact in facts for name in ("", producer.name)
        ):
            said = f"nobody reads what {producer.name!r} states"
            yield notes.warning(said, producer.path)
    makers = _makers(running)
    if len(makers) < 2:
        return
    read = {name or _default(makers) for fact, name in asked if fact is PrefixMatch}
    for name in makers:
        if read and name in instances and name not in read:
            others = ", ".join(sorted(read))
            said = f"nobody goes by the matches of {name!r}, but by those of {others}"
            yield notes.warning(said, instances[name].path)


def _makers(running: Sequence[Plugin]) -> list[str]:
    """Names of the producers that state matches."""
    return [p.name for p in running if PrefixMatch in catalog.PROVIDES[p.type]]


def _default(makers: Sequence[str]) -> str:
    """The one that is meant where none is named."""
    return _DEFAULT_MATCHES if _DEFAULT_MATCHES in makers else makers[0]


def _matches(plugin: object) -> Iterator[str]:
    """Names of the producers whose matches a plugin reads; empty: the default one."""
    return (name for fact, name in needs(plugin) if fact is PrefixMatch)
