"""What a configuration leaves out and gets all the same, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router import catalog
from router.config import admission, deprecated, notes
from router.config.notes import Note
from router.config.plugins import Plugin, needs
from router.config.schema import EndpointPickerConfig
from router.producers.facts import EncoderCacheMatch, PrefixMatch, Tokens

HANDLER = "single-profile-handler"
PICKER = "max-score-picker"


def notes_of(
    file: EndpointPickerConfig, instances: Mapping[str, Plugin], running: Sequence[Plugin]
) -> Iterator[Note]:
    """One note for each thing that was filled in."""
    for producer in running:
        if producer.name not in instances:
            said = (
                f"{producer.name}: {_who_needs(producer, instances, running)} needs what it states"
            )
            yield notes.filled_in(said, "$.plugins")
    if deprecated.detector(file) is None:
        said = f"{admission.DETECTOR}: no saturation detector is named"
        yield notes.filled_in(said, "$.flowControl.saturationDetector")
    kinds = {plugin.type for plugin in instances.values()}
    if not kinds & set(catalog.HANDLERS):
        yield notes.filled_in(f"{HANDLER}: no profile handler is declared", "$.plugins")
    if not kinds & set(catalog.PICKERS):
        yield notes.filled_in(f"{PICKER}: no picker is declared", "$.plugins")
    yield from _profiles(file, instances)
    if reads_metrics_by_default(file, instances):
        said = "metrics-data-source -> core-metrics-extractor: no source says otherwise"
        yield notes.filled_in(said, "$.dataLayer.sources")


def _who_needs(producer: Plugin, instances: Mapping[str, Plugin], running: Sequence[Plugin]) -> str:
    """Name of the first plugin that goes by its facts, itself or by what is made of them."""
    stated = set(catalog.PROVIDES[producer.type])
    for plugin in (*instances.values(), *running):
        facts = {fact for fact, _ in (*needs(plugin.value), *needs(plugin.parameters))}
        if facts & stated or (Tokens in stated and _is_made_of_tokens(plugin)):
            return plugin.name
    return "something"


def _is_made_of_tokens(plugin: Plugin) -> bool:
    made = catalog.PROVIDES.get(plugin.type, ())
    return PrefixMatch in made or EncoderCacheMatch in made


def reads_metrics_by_default(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> bool:
    """No source reads metrics, and defaults are wanted."""
    sources = {instances[s.plugin_ref].type for s in file.data_layer.sources}
    return file.data_layer.inject_defaults and "metrics-data-source" not in sources


def _profiles(file: EndpointPickerConfig, instances: Mapping[str, Plugin]) -> Iterator[Note]:
    if not file.scheduling_profiles:
        said = "profile default, with every filter, scorer and picker in the order of the file"
        yield notes.filled_in(said, "$.schedulingProfiles")
    for i, profile in enumerate(file.scheduling_profiles):
        path = f"$.schedulingProfiles[{i}]"
        kinds = {instances[member.plugin_ref].type for member in profile.plugins}
        if not kinds & set(catalog.PICKERS):
            yield notes.filled_in(f"picker {_picker(instances)}", path)
        for k, member in enumerate(profile.plugins):
            if member.weight is None and instances[member.plugin_ref].type in catalog.SCORERS:
                yield notes.filled_in("weight 1", f"{path}.plugins[{k}]")


def _picker(instances: Mapping[str, Plugin]) -> str:
    return next((p.name for p in instances.values() if p.type in catalog.PICKERS), PICKER)
