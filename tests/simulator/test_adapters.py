from __future__ import annotations

import pytest

from simulator.adapters import Served
from simulator.errors import ApiError
from simulator.hashing import Adapter
from tests.simulator.recordings import samples

SQL = Adapter("sql", "/sql", 1)


@pytest.mark.parametrize("name", [None, "", "tiny"])
def test_the_base_model_answers_to_its_name_and_to_none(name: str | None) -> None:
    assert Served("tiny", [SQL]).find(name) is None


def test_an_adapter_answers_to_its_name() -> None:
    assert Served("tiny", [SQL]).find("sql") == SQL


def test_an_unknown_name_is_refused_as_recorded() -> None:
    with pytest.raises(ApiError) as refused:
        Served("tiny", [SQL]).find("nope")
    assert refused.value.body() == samples()["err-unknown-model"].response


def test_a_loaded_adapter_gets_the_next_number() -> None:
    served = Served("tiny", [SQL])
    served.load("chat", "/chat")
    assert served.adapters == (SQL, Adapter("chat", "/chat", 2))


def test_an_adapter_that_comes_back_keeps_its_number() -> None:
    served = Served("tiny", [SQL])
    served.load("chat", "/chat")
    served.unload("sql")
    assert [adapter.name for adapter in served.adapters] == ["chat"]
    served.load("sql", "/elsewhere")
    assert served.find("sql") == Adapter("sql", "/elsewhere", 1)


def test_a_name_in_use_is_refused_as_recorded() -> None:
    served = Served("tiny", [])
    served.load("sql2", "scratch")
    with pytest.raises(ApiError) as refused:
        served.load("sql2", "scratch")
    assert refused.value.body() == samples()["lora-load-again"].response
    with pytest.raises(ApiError):
        served.load("tiny", "scratch")


@pytest.mark.parametrize(("name", "path"), [(None, "p"), ("", "p"), ("x", None), ("x", "")])
def test_an_adapter_needs_a_name_and_a_path(name: str | None, path: str | None) -> None:
    with pytest.raises(ApiError, match="must be provided") as refused:
        Served("tiny", []).load(name, path)
    assert refused.value.status == 400


@pytest.mark.parametrize(("name", "status"), [(None, 400), ("nope", 404)])
def test_what_is_not_loaded_cannot_be_unloaded(name: str | None, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        Served("tiny", [SQL]).unload(name)
    assert refused.value.status == status
