"""Model names are joined where they mean one model, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.endpoint import ServedModels
from router.pool.models import ModelNames, ModelTable, parse_models

CAPTURES = Path(__file__).parents[2] / "captures"


def served(*names: str, root: str | None = None, **adapters: str) -> ServedModels:
    return ServedModels(names=names, root=root, adapters=adapters)


def names_of(name: str, *models: ServedModels) -> tuple[str, ...]:
    return ModelTable(models).resolve(name).names


def test_a_recorded_list_has_one_base_model_and_its_adapters() -> None:
    assert parse_models((CAPTURES / "models.json").read_bytes()) == ServedModels(
        names=("tiny",),
        root="scratch/tinymodel",
        adapters={"sql-lora": "tiny", "chat-lora": "tiny"},
    )


def test_cards_of_one_root_are_aliases_and_others_are_not() -> None:
    body = (
        b'{"data": [{"id": "a", "root": "r"}, {"id": "b", "root": "r"},'
        b' {"id": "c", "root": "s"}, {"id": "d"}]}'
    )
    assert parse_models(body) == ServedModels(names=("a", "b"), root="r", others=("c", "d"))


def test_two_cards_without_a_root_are_not_proven_to_be_one_model() -> None:
    body = b'{"data": [{"id": "a"}, {"id": "b"}, {"id": "b"}]}'
    assert parse_models(body) == ServedModels(names=("a",), others=("b",))


def test_an_empty_list_serves_nothing() -> None:
    assert parse_models(b'{"data": []}') == ServedModels()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"data": [{}]}', b'{"data": null}'])
def test_another_answer_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        parse_models(body)


def test_a_name_that_nobody_serves_stands_for_itself() -> None:
    assert ModelTable([]).resolve("x") == ModelNames(main="x", names=("x",))


@pytest.mark.parametrize("name", ["main", "alias", "org/model"])
def test_each_name_of_a_base_model_stands_for_all_its_names(name: str) -> None:
    table = ModelTable([served("main", "alias", root="org/model")])
    assert table.resolve(name) == ModelNames(main="main", names=("main", "alias", "org/model"))


def test_an_adapter_stands_for_its_base_model_with_the_adapter() -> None:
    table = ModelTable([served("main", "alias", root="org/model", sql="main")])
    assert table.resolve("sql") == ModelNames(
        main="main", names=("main", "alias", "org/model"), adapter="sql"
    )


def test_an_adapter_belongs_to_its_engine_whatever_its_card_calls_the_parent() -> None:
    assert names_of("sql", served("main", sql="some-hub/base")) == ("main",)


def test_the_names_of_one_model_on_two_endpoints_are_joined() -> None:
    assert names_of("m", served("m", "a"), served("m", "b")) == ("m", "a", "b")


def test_an_alias_that_two_models_share_does_not_make_them_one() -> None:
    canary = served("small", "prod"), served("big", "prod")
    assert names_of("small", *canary) == ("small", "prod")
    assert names_of("big", *canary) == ("big", "prod")
    assert names_of("prod", *canary) == ("small", "prod", "big")


def test_a_mount_path_that_two_models_share_names_neither() -> None:
    mounted = served("llama", root="/model"), served("qwen", root="/model")
    assert names_of("llama", *mounted) == ("llama",)
    assert names_of("/model", *mounted) == ("/model",)


def test_a_root_that_others_serve_as_a_name_is_no_alias() -> None:
    models = served("chat", root="org/m"), served("org/m", root="org/m")
    assert names_of("chat", *models) == ("chat",)
    assert names_of("org/m", *models) == ("org/m",)


def test_a_name_served_as_a_base_and_as_an_adapter_is_the_base() -> None:
    table = ModelTable([served("tiny", x="tiny"), served("x")])
    assert table.resolve("x") == ModelNames(main="x", names=("x",))


_names = st.sampled_from("abcdef")
_served = st.builds(
    ServedModels,
    names=st.lists(_names, max_size=3, unique=True).map(tuple),
    root=st.none() | _names,
    adapters=st.dictionaries(_names, _names, max_size=2),
)


@given(st.lists(_served, max_size=5))
def test_names_are_joined_only_through_an_endpoint_that_serves_them(
    models: list[ServedModels],
) -> None:
    table = ModelTable(models)
    for name, known in table.known.items():
        assert known.main == known.names[0]
        if known.adapter is None:
            assert name in known.names
            for other in set(known.names) - {name}:
                assert any({name, other} <= {*m.names, m.root} for m in models)
        else:
            assert any(name in m.adapters for m in models)


def test_no_name_stands_for_the_only_base_model() -> None:
    served = ServedModels(names=("main", "alias"), adapters={"sql": "main"})
    assert ModelTable([served, served]).resolve("") == ModelNames(
        main="main", names=("main", "alias")
    )


def test_no_name_stands_for_nothing_where_base_models_differ() -> None:
    table = ModelTable([ServedModels(names=("a",)), ServedModels(names=("b",))])
    assert table.resolve("") == ModelNames(main="", names=("",))
