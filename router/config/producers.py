"""Producers: those declared, and those made because something needs their facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from router import catalog
from router.config.errors import ConfigError
from router.config.plugins import Plugin, made
from router.producers.facts import InFlight, PrefixMatch, Tokens
from router.scheduling.types import Profile

_AUTOMATIC: Mapping[type, str] = {
    Tokens: "token-producer",
    InFlight: "inflight-load-producer",
}
"""Producers made where a fact is needed and nobody states it. Prefix matches are not among them: a
router that guesses where its matches should come from hides a mistake."""


def build(plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]) -> tuple[Plugin, ...]:
    """Those declared and those made for a need, in the order they run."""
    declared = {p.name: p for p in plugins.values() if p.type in catalog.PRODUCERS}
    paths = {id(p.value): p.path for p in plugins.values()}
    for profile in profiles.values():
        filters = [member.plugin for member in profile.filters]
        scorers = [member.plugin for member in profile.scorers]
        for plugin in (*filters, *scorers):
            for fact, name in _needs(plugin):
                _bind(fact, name, declared, paths.get(id(plugin), f"${profile.name}"))
    if any(catalog.PROVIDES[p.type] is PrefixMatch for p in declared.values()):
        _bind(Tokens, "", declared, "$.plugins")
    order = list(catalog.PRODUCERS)
    return tuple(sorted(declared.values(), key=lambda p: order.index(p.type)))


def _needs(plugin: object) -> Sequence[tuple[type, str]]:
    needs = getattr(plugin, "needs", None)
    return needs() if needs else ()


def _bind(fact: type, name: str, declared: dict[str, Plugin], path: str) -> None:
    """Make sure somebody states `fact`. Raises ConfigError."""
    providers = [p.name for p in declared.values() if catalog.PROVIDES[p.type] is fact]
    if name and name not in providers:
        known = ", ".join(providers) or "none"
        raise ConfigError(
            f"no producer {name!r} states {fact.__name__}; declared: {known}"
            f" - at `{path}.parameters`"
        )
    if len(providers) > 1 and not name:
        raise ConfigError(
            f"several producers state {fact.__name__} ({', '.join(providers)}): name one"
            f" - at `{path}`"
        )
    if providers:
        return
    automatic = _AUTOMATIC.get(fact)
    if automatic is None:
        makers = ", ".join(t for t, provided in catalog.PROVIDES.items() if provided is fact)
        raise ConfigError(f"no producer states {fact.__name__}: declare {makers} - at `{path}`")
    parameters = catalog.PRODUCERS[automatic]()
    declared[automatic] = made(automatic, automatic, "$.plugins", parameters)
