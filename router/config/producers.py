"""Producers: those declared, and those made because something needs their facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from router import catalog
from router.config import nearest, wrapped
from router.config.errors import ConfigError
from router.config.leaves import leaves
from router.config.plugins import Plugin, made, needs
from router.producers.estimate_parameters import EstimateParameters
from router.producers.facts import (
    EncoderCacheMatch,
    InFlight,
    PrefixMatch,
    Tokens,
    Uncached,
)
from router.producers.token_parameters import TokenParameters
from router.scheduling.types import Profile, ProfileHandler

_AUTOMATIC: Mapping[type, str] = {
    Tokens: "token-producer",
    PrefixMatch: "approx-prefix-cache-producer",
    InFlight: "inflight-load-producer",
    Uncached: "inflight-load-producer",
    EncoderCacheMatch: "mm-embeddings-cache-producer",
}
"""Producers made where a fact is needed, no producer is named and nobody states it; where several
state it, the one of that name is meant (both as in llm-d)."""

_PRECISE = "precise-prefix-cache-producer"
"""Only this one needs the engine's own tokens: for all others they are estimated, as in llm-d."""

_FROM_TOKENS = frozenset({PrefixMatch, Uncached, EncoderCacheMatch})
"""Facts that are made of the prompt's tokens."""

_Need = tuple[type, str, str]
"""A fact, the name of its producer or nothing, and where in the file it is needed."""


def build(
    plugins: Mapping[str, Plugin],
    profiles: Mapping[str, Profile],
    handler: ProfileHandler,
    others: Iterable[Plugin] = (),
) -> tuple[Plugin, ...]:
    """Those declared and those made for a need, in the order they run. Raises ConfigError.

    `others` need facts, too, beside the members of profiles and the handler.
    """
    declared = {p.name: p for p in plugins.values() if p.type in catalog.PRODUCERS}
    declared.update(wrapped.producers(plugins))
    if not _needs_engines_tokens(declared):
        declared = {name: _estimating(plugin) for name, plugin in declared.items()}
    from_plugins = (*_own_needs(declared), *_profile_needs(plugins, profiles))
    for need in (*from_plugins, *_other_needs(handler, others, plugins)):
        _bind(need, declared, plugins)
    order = list(catalog.PRODUCERS)
    # Of several of a type the one that bears its name runs first: it is meant where none is named.
    return tuple(sorted(declared.values(), key=lambda p: (order.index(p.type), p.name != p.type)))


def _own_needs(declared: Mapping[str, Plugin]) -> Iterator[_Need]:
    """What the declared producers themselves need."""
    for producer in declared.values():
        for fact, name in needs(producer.parameters):
            yield fact, name, producer.path
        if {PrefixMatch, EncoderCacheMatch} & set(catalog.PROVIDES[producer.type]):
            yield Tokens, "", producer.path


def _profile_needs(
    plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]
) -> Iterator[_Need]:
    paths = {id(p.value): p.path for p in plugins.values()}
    for profile in profiles.values():
        filters = [member.plugin for member in profile.filters]
        scorers = [member.plugin for member in profile.scorers]
        for plugin in (*filters, *scorers):
            for fact, name in needs(plugin):
                yield fact, name, paths.get(id(plugin), f"${profile.name}")


def _other_needs(
    handler: ProfileHandler, others: Iterable[Plugin], plugins: Mapping[str, Plugin]
) -> Iterator[_Need]:
    where = next((p.path for p in plugins.values() if p.type in catalog.HANDLERS), "$.plugins")
    yield from ((fact, name, where) for fact, name in needs(handler))
    for other in others:
        yield from ((fact, name, other.path) for fact, name in needs(other.value))


def _bind(need: _Need, declared: dict[str, Plugin], plugins: Mapping[str, Plugin]) -> None:
    """Make sure somebody states a fact. Raises ConfigError."""
    fact, name, path = need
    providers = [p.name for p in declared.values() if fact in catalog.PROVIDES[p.type]]
    automatic = _AUTOMATIC.get(fact)
    if name not in providers and (name or not providers):
        if name and name != automatic:
            raise _nobody(need, providers, plugins)
        _make(need, automatic, declared)
    elif not name and len(providers) > 1 and automatic not in providers:
        raise ConfigError(
            f"several producers state {fact.__name__} ({', '.join(providers)}): name one"
            f" - at `{path}`"
        )
    if fact in _FROM_TOKENS:
        _bind((Tokens, "", path), declared, plugins)


def _nobody(need: _Need, providers: Sequence[str], plugins: Mapping[str, Plugin]) -> ConfigError:
    """What to say of a producer that is named and not there."""
    fact, name, path = need
    meant = nearest.near(name, providers)
    clause = f"did you mean {meant!r}?" if meant else f"declared: {', '.join(providers) or 'none'}"
    where = _naming(name, path, plugins)
    return ConfigError(f"no producer {name!r} states {fact.__name__}; {clause} - at `{where}`")


def _naming(name: str, path: str, plugins: Mapping[str, Plugin]) -> str:
    """Where a producer is named: by what stands at `path`, or by a decider of the handler there."""
    asked = [p for p in plugins.values() if p.path == path]
    asked += [p for p in plugins.values() if p.type in catalog.DECIDERS]
    for plugin in asked:
        for field, value in leaves(msgspec.to_builtins(plugin.parameters)):
            if value == name:
                return f"{plugin.path}.parameters{field}"
    return f"{path}.parameters"


def _make(need: _Need, automatic: str | None, declared: dict[str, Plugin]) -> None:
    """Declare the automatic producer of a fact. Raises ConfigError where there is none."""
    fact, _, path = need
    if automatic is None:
        makers = ", ".join(t for t, provided in catalog.PROVIDES.items() if fact in provided)
        raise ConfigError(f"no producer states {fact.__name__}: declare {makers} - at `{path}`")
    if automatic in declared:
        raise ConfigError(
            f"{automatic!r} states no {fact.__name__}: it is the name of another plugin"
            f" - at `{declared[automatic].path}`"
        )
    parameters = catalog.PRODUCERS[automatic]()
    producer = made(automatic, automatic, "$.plugins", parameters)
    declared[automatic] = producer if _needs_engines_tokens(declared) else _estimating(producer)


def _needs_engines_tokens(declared: Mapping[str, Plugin]) -> bool:
    return any(producer.type == _PRECISE for producer in declared.values())


def _estimating(producer: Plugin) -> Plugin:
    """The same; one of tokens that names no backend estimates them."""
    parameters = producer.value
    if not isinstance(parameters, TokenParameters) or parameters.backend:
        return producer
    value = msgspec.structs.replace(parameters, estimate=EstimateParameters())
    return msgspec.structs.replace(producer, value=value, parameters=value)
