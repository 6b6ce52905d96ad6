"""YAML or JSON text -> plain data, strictly: a key that stands twice is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml

from router.config.errors import ConfigError

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


_MERGE = "tag:yaml.org,2002:merge"
"""The key ``<<``, which brings in another mapping's keys."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without silently overwritten keys, and with every number that JSON has."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        # An explicit tag can bring any node here; the base class refuses all others.
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key_node, _ in node.value:
                if key_node.tag == _MERGE:
                    continue
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, Hashable) and key in seen:
                    line = key_node.start_mark.line + 1
                    raise ConfigError(f"key {key!r} stands twice - at line {line}")
                seen.add(key if isinstance(key, Hashable) else id(key))
        return super().construct_mapping(node, deep)


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    return _whole(loader.construct_yaml_float(node))


def _whole(number: float) -> int | float:
    """128.0 and 1e9 are whole numbers to Go's readers, too."""
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


_Loader.add_constructor("tag:yaml.org,2002:float", _number)
# YAML 1.1 takes 1e-3 and 1.5e3 for text; JSON, YAML 1.2 and Go's readers take them for numbers.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$", re.ASCII),
    list("-+.0123456789"),
)


def parse(text: str) -> object:
    """Raises ConfigError naming the line. JSON is YAML, too, but for its tabs."""
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        return _as_json(text, error)
    except yaml.YAMLError as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError("nested too deeply") from error
    if data is None:
        raise ConfigError("the configuration is empty")
    return data


def _as_json(text: str, error: yaml.MarkedYAMLError) -> object:
    """JSON that YAML does not take, such as JSON indented with tabs."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_float=lambda told: _whole(float(told))
        )
    except (json.JSONDecodeError, RecursionError):
        where = f" - at line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"not valid YAML: {_said(error, text)}{where}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ConfigError(f"key {key!r} stands twice")
        data[key] = value
    return data


def _said(error: yaml.MarkedYAMLError, text: str) -> str:
    mark, problem = error.problem_mark, error.problem or "it cannot be read"
    lines = text.splitlines()
    if mark is not None and mark.line < len(lines) and "\t" in lines[mark.line]:
        return f"{problem} (YAML is indented with spaces, this line has a tab)"
    return problem


def line_of(text: str, path: str) -> int | None:
    """The line at which what a path such as ``$.plugins[0].type`` names stands.

    Where the path goes on beyond what the text has, the last thing it has; None for no YAML.
    """
    # JSON may be indented with tabs; in its lines they are as good as spaces.
    node = _composed(text) or _composed(text.replace("\t", " "))
    line: int | None = None
    for step in _STEP.finditer(path):
        below = _child(node, step[1], step[2])
        if below is None:
            break
        node, line = below
    return line


def _composed(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None


def _child(
    node: yaml.Node | None, key: str | None, index: str | None
) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode) and key is not None:
        for key_node, value in node.value:
            if key_node.value == key:
                return value, key_node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and index is not None and int(index) < len(node.value):
        item = node.value[int(index)]
        return item, item.start_mark.line + 1
    return None
