"""Which names mean the same model: base models, their aliases, and LoRA adapters.

Two rules keep blocks of one model from being credited to another. Names are joined only through an
endpoint that serves them, never from alias to alias across endpoints. And a root names a model only
where all who claim it share a served name, since engines in containers often load different
models from one and the same path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from router.pool.endpoint import ServedModels


class ModelNames(msgspec.Struct, frozen=True, kw_only=True):
    """What a model name in a request stands for.

    Attributes:
        main: The name to ask the tokenizer for.
        names: All names of the base model, `main` first.
        adapter: The LoRA adapter the name stands for; None for a base model.
    """

    main: str
    names: tuple[str, ...]
    adapter: str | None = None


class _Card(msgspec.Struct, frozen=True):
    id: str
    root: str | None = None
    parent: str | None = None


class _CardList(msgspec.Struct, frozen=True):
    data: tuple[_Card, ...]


_decoder = msgspec.json.Decoder(_CardList)


def parse_models(body: bytes) -> ServedModels:
    """The answer to ``GET /v1/models``. Raises msgspec.DecodeError.

    A card with a parent is a LoRA adapter. The first of the others is the base model; another
    one is an alias of it only where both were loaded from the same root.
    """
    cards = _decoder.decode(body).data
    bases = [card for card in cards if card.parent is None]
    adapters = {card.id: card.parent for card in cards if card.parent is not None}
    if not bases:
        return ServedModels(adapters=adapters)
    root = bases[0].root
    names = [card.id for card in bases[1:] if root is not None and card.root == root]
    names = list(dict.fromkeys([bases[0].id, *names]))
    others = dict.fromkeys(card.id for card in bases if card.id not in names)
    return ServedModels(names=tuple(names), root=root, adapters=adapters, others=tuple(others))


class ModelTable:
    """Resolves model names by what a set of endpoints serves."""

    def __init__(self, served: Iterable[ServedModels]) -> None:
        served = tuple(served)
        roots = _shared_roots(served)
        bases: defaultdict[str, dict[str, None]] = defaultdict(dict)
        adapters: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for models in served:
            # A dict without values is a set that keeps the order.
            own = dict.fromkeys(models.names)
            if models.root in roots:
                own[models.root] = None
            for name in own:
                bases[name].update(own)
            for adapter, parent in models.adapters.items():
                adapters[adapter].update(own or {parent: None})
        self._known = {
            name: ModelNames(main=next(iter(names)), names=tuple(names), adapter=name)
            for name, names in adapters.items()
        } | {
            name: ModelNames(main=next(iter(names)), names=tuple(names))
            for name, names in bases.items()
        }

    @property
    def known(self) -> Mapping[str, ModelNames]:
        """Every name that an endpoint serves."""
        return self._known

    def resolve(self, name: str) -> ModelNames:
        """What a name stands for; a name nobody serves stands for itself.

        No name at all stands for the base model, where all endpoints serve the same one: engines
        answer such a request with it.
        """
        known = self._known.get(name)
        if known is None and not name:
            bases = {names.main: names for names in self._known.values() if names.adapter is None}
            known = next(iter(bases.values())) if len(bases) == 1 else None
        return known or ModelNames(main=name, names=(name,))


def _shared_roots(served: tuple[ServedModels, ...]) -> set[str]:
    """The roots that name one model."""
    claims: defaultdict[str, list[set[str]]] = defaultdict(list)
    for models in served:
        names = set(models.names)
        for name in names if models.root is None else names | {models.root}:
            claims[name].append(names)
    roots = {models.root for models in served if models.root is not None}
    return {root for root in roots if set.intersection(*claims[root])}
