"""Run: stores that are taken in together, because each goes on where the one before it ends."""

from __future__ import annotations

from indexer.events import BlockStored, joined
from indexer.ledger import Ledger

LARGE_BYTES = 1024
"""Of tokens in a store that is taken in by itself: there is little to spare."""


class Run:
    """The stores that came last, of one ledger; they are taken in when the run ends."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._model = ""
        self._stores: list[BlockStored] = []

    def add(self, store: BlockStored, ledger: Ledger, model: str) -> None:
        """Keep a store of this ledger, and end the run that it does not go on with."""
        if len(store.tokens) >= LARGE_BYTES:
            self.end()
            ledger.apply(store, model)
            return
        stores = self._stores
        if stores and not (
            store.goes_on(stores[-1]) and ledger is self._ledger and model == self._model
        ):
            self.end()
            stores = self._stores
        self._ledger, self._model = ledger, model
        stores.append(store)

    def end(self) -> None:
        """Take in what is kept."""
        if self._stores and self._ledger is not None:
            stores, self._stores = self._stores, []
            if len(stores) > 1 and self._ledger.takes_as_one(stores):
                stores = [joined(stores)]
            for store in stores:
                self._ledger.apply(store, self._model)
