"""An EndpointPickerConfig's text -> built plugins. Corrects nothing silently.

    text ──► data ──► EndpointPickerConfig ──► plugin instances ──► profiles, producers, sources
                                                                    └► checks that bind them

Every mistake is a ConfigError that names its path. What is merely useless (an unused plugin, a
producer that nothing feeds) is a warning of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from router import catalog
from router.config import data_layer, handlers, plugins, producers, profiles
from router.config import text as config_text
from router.config.errors import ConfigError
from router.config.plugins import Plugin
from router.config.schema import API_VERSIONS, EndpointPickerConfig
from router.pool.sources import FileDiscoveryParameters, MetricsSourceParameters
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.producers.types import Follower
from router.scheduling.types import Answerer, Profile, ProfileHandler


class Config(msgspec.Struct, frozen=True):
    """A configuration, ready to run.

    Attributes:
        profiles: Name -> profile, in the file's order.
        handler: Chooses among them.
        producers: Producers in the order they run.
        notified: Names of producers that follow endpoints as they come and go.
        discovery: Where endpoints come from, if the file says.
        metrics: How metrics are read.
        followers: Plugins that are told of every pick, beside producers.
        answerers: Plugins that add to the headers of answers.
        warnings: What cannot have the effect somebody hoped for.
    """

    profiles: Mapping[str, Profile]
    handler: ProfileHandler
    producers: tuple[Plugin, ...]
    notified: frozenset[str]
    discovery: FileDiscoveryParameters | None
    metrics: MetricsSourceParameters
    followers: tuple[Follower, ...]
    answerers: tuple[Answerer, ...]
    warnings: tuple[str, ...]

    @property
    def picks(self) -> int:
        """How many endpoints a request may be given, the further ones as fallbacks."""
        pickers = (profile.picker for profile in self.profiles.values())
        return max(getattr(picker, "max_num_of_endpoints", 1) for picker in pickers)


def load(text: str) -> Config:
    """Raises ConfigError."""
    file = _decode(text)
    instances = plugins.instances(file.plugins)
    built = profiles.build(file, instances)
    handler = handlers.build(instances, built)
    running = producers.build(instances, built, handler)
    notified = data_layer.notified(file, instances)
    return Config(
        profiles=profiles.bound(built, handler),
        handler=handler,
        producers=running,
        notified=notified,
        discovery=data_layer.discovery(file, instances),
        metrics=data_layer.metrics(file, instances),
        followers=tuple(_followers(instances)),
        answerers=tuple(p.value for p in instances.values() if p.type in catalog.ANSWERERS),
        warnings=(
            *_warnings(file, instances, running, notified),
            *handlers.warnings(instances, built, handler),
        ),
    )


def _followers(instances: Mapping[str, Plugin]) -> Iterator[Follower]:
    for plugin in instances.values():
        if plugin.type not in catalog.PRODUCERS and hasattr(plugin.value, "decided"):
            yield plugin.value


def _decode(text: str) -> EndpointPickerConfig:
    data = config_text.parse(text)
    try:
        file = msgspec.convert(data, EndpointPickerConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(plugins.placed(str(error), "$")) from error
    if file.api_version not in API_VERSIONS:
        known = ", ".join(API_VERSIONS)
        raise ConfigError(
            f"unknown version {file.api_version!r}; known: {known} - at `$.apiVersion`"
        )
    return file


def _warnings(
    file: EndpointPickerConfig,
    instances: Mapping[str, Plugin],
    running: Sequence[Plugin],
    notified: frozenset[str],
) -> Iterator[str]:
    used = {p.plugin_ref for profile in file.scheduling_profiles for p in profile.plugins}
    rated = {**catalog.FILTERS, **catalog.SCORERS, **catalog.PICKERS}
    for plugin in instances.values():
        if file.scheduling_profiles and plugin.type in rated and plugin.name not in used:
            yield f"{plugin.name!r} is in no profile and has no effect - at `{plugin.path}`"
    estimated = any(
        isinstance(p.value, TokenParameters) and p.value.estimate is not None for p in running
    )
    for producer in running:
        if not isinstance(producer.value, PrecisePrefixParameters):
            continue
        if estimated:
            yield (
                f"{producer.name!r} can never match: the ids of token-producer's estimate are no "
                f"engine's - at `{producer.path}`"
            )
        if producer.name not in notified:
            yield (
                f"{producer.name!r} hears only engines whose endpoint names its kvEvents: no "
                f"endpoint-notification-source feeds it - at `{producer.path}`"
            )
    for gate in file.feature_gates:
        yield f"feature gate {gate!r} has no effect - at `$.featureGates`"
