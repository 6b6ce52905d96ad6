from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from router import catalog
from router.config.errors import ConfigError
from router.config.load import Config, load

HEAD = {"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig"}


def config(*parsers: str, plugins: tuple[dict[str, Any], ...] = (), **fields: Any) -> Config:
    handler = {"requestHandler": {"parsers": [{"pluginRef": ref} for ref in parsers]}}
    given = HEAD | {"plugins": [{"type": "queue-scorer"}, *plugins]} | handler | fields
    return load(msgspec.json.encode(given).decode())


def names(built: Config) -> list[str]:
    return [parser.name for parser in built.parsers]


def test_every_parser_reads_where_none_is_listed() -> None:
    assert names(config()) == list(catalog.PARSERS)
    assert config().warnings == ()


def test_parsers_are_asked_in_the_order_listed_declared_or_not() -> None:
    declared = {"type": "anthropic-parser", "name": "mine"}
    built = config("openai-parser", "mine", "passthrough-parser", plugins=(declared,))
    assert names(built) == ["openai-parser", "mine", "passthrough-parser"]
    assert built.warnings == ()


def test_the_older_place_names_the_only_parser() -> None:
    built = config(parser={"pluginRef": "passthrough-parser"})
    assert names(built) == ["passthrough-parser"]


def test_a_list_without_one_that_takes_the_rest_is_warned_of() -> None:
    (warning,) = config("openai-parser").warnings
    assert warning.endswith("is refused (400) - at `$.requestHandler.parsers[0]`")


def test_a_parser_after_the_one_that_takes_the_rest_is_warned_of() -> None:
    (warning,) = config("passthrough-parser", "openai-parser").warnings
    assert "'openai-parser' is never asked" in warning


def test_a_grpc_parser_beside_others_is_inactive() -> None:
    built = config("vllmgrpc-parser", "passthrough-parser")
    assert names(built) == ["passthrough-parser"]
    (warning,) = built.warnings
    assert "vllmgrpc-parser does not run" in warning


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("vllmgrpc-parser", "no other parser is listed - at `$.requestHandler.parsers[0]`"),
        ("openai", "did you mean 'openai-parser'? - at `$.requestHandler.parsers[0].pluginRef`"),
        ("queue-scorer", "'queue-scorer' is no parser"),
    ],
)
def test_a_list_by_which_nothing_could_be_read_is_fatal(ref: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        config(ref)
