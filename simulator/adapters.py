"""The names an engine serves: its base model and the LoRA adapters loaded on it."""

from __future__ import annotations

from collections.abc import Iterable

from simulator.errors import ApiError
from simulator.hashing import Adapter


class Served:
    """Which names mean the base model and which an adapter. Adapters come and go at run time."""

    def __init__(self, base: str, adapters: Iterable[Adapter]) -> None:
        self.base = base
        self._loaded = {adapter.name: adapter for adapter in adapters}
        self._numbers = {name: adapter.number for name, adapter in self._loaded.items()}

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        return tuple(self._loaded.values())

    def find(self, name: str | None) -> Adapter | None:
        """The adapter of that name, None for the base model or no name. Raises ApiError."""
        if name in (None, "", self.base):
            return None
        adapter = self._loaded.get(name) if name else None
        if adapter is None:
            message = f"The model `{name}` does not exist. Valid aliases: {self.base}."
            raise ApiError.not_found(message, "model")
        return adapter

    def load(self, name: str | None, path: str | None) -> None:
        """Add an adapter; any path will do. A name that was here keeps its number."""
        if not name or not path:
            raise ApiError.lora("Both 'lora_name' and 'lora_path' must be provided.")
        if name in self._loaded or name == self.base:
            raise ApiError.lora(
                f"The lora adapter '{name}' has already been loaded. If you want to load the"
                " adapter in place, set 'load_inplace' to True."
            )
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        self._loaded[name] = Adapter(name, path, number)

    def unload(self, name: str | None) -> None:
        """Take an adapter away; what it has in the cache stays until it is evicted."""
        if not name:
            raise ApiError.lora("'lora_name' needs to be provided to unload a LoRA adapter.")
        if name not in self._loaded:
            raise ApiError.not_found(f"The lora adapter '{name}' cannot be found.")
        del self._loaded[name]
