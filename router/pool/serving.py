"""Who may be asked for a model, by what the endpoints list: an engine answers 404 for any other.

A name that nobody lists keeps all endpoints: the engine knows best what to answer. One that has not
told what it serves may have the base model, as pools mostly do, but not an adapter, which engines
load one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from router.pool.endpoint import Endpoint


class Serving:
    """What a set of endpoints lists."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        self._count = len(endpoints)
        untold = {e.address for e in endpoints if e.models is None}
        adapters: set[str] = set()
        for endpoint in endpoints:
            if endpoint.models is not None:
                adapters.update(endpoint.models.adapters)
                for name in endpoint.models.listed:
                    self._by_name[name].add(endpoint.address)
        for name in self._by_name.keys() - adapters:
            self._by_name[name] |= untold

    def narrow(self, endpoints: Sequence[Endpoint], model: str) -> Sequence[Endpoint]:
        """Those of the endpoints that may be asked for it, in the same order."""
        addresses = self._by_name.get(model)
        if addresses is None or len(addresses) == self._count:
            return endpoints
        return tuple(e for e in endpoints if e.address in addresses)
