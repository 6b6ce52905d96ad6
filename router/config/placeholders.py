"""Words that a template leaves for somebody to fill in, and that nobody has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from router.config import notes
from router.config.leaves import leaves
from router.config.notes import Note
from router.config.schema import PluginEntry

_LEFT = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)|\{\{[^{}]*\}\}|<[A-Za-z][\w .-]*>")
"""As shells, Kubernetes, Helm and people write them."""


def about(plugins: Sequence[PluginEntry]) -> Iterator[Note]:
    """One warning for each parameter that has such a word."""
    for i, plugin in enumerate(plugins):
        for path, text in leaves(plugin.parameters or {}, f"$.plugins[{i}].parameters"):
            found = _LEFT.search(text) if isinstance(text, str) else None
            if found is not None:
                said = f"{found[0]!r} is taken as it stands: nothing fills it in here"
                yield notes.warning(said, path)
