"""YAML or JSON text -> plain data, strictly: a key that stands twice is an error."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from router.config.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """Safe YAML without silently overwritten keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ConfigError(f"key {key!r} stands twice - at line {line}")
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse(text: str) -> object:
    """Raises ConfigError naming the line. JSON is YAML, too."""
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        where = f" - at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"not valid YAML: {error.problem}{where}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {error}") from error
    if data is None:
        raise ConfigError("the configuration is empty")
    return data
