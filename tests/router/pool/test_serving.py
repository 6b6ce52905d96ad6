"""Who may be asked for a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.endpoint import Endpoint, ServedModels
from router.pool.serving import Serving
from tests.support import make

PLAIN = ServedModels(names=("m", "alias"))
ADAPTED = ServedModels(names=("m",), adapters={"sql": "m"})
OTHER = ServedModels(names=("o",), others=("extra",))

FLEET = [
    make.endpoint("a:1", models=PLAIN),
    make.endpoint("b:1", models=ADAPTED),
    make.endpoint("c:1", models=OTHER),
    make.endpoint("d:1"),
]


@pytest.mark.parametrize(
    ("model", "addresses"),
    [
        ("m", ["a:1", "b:1", "d:1"]),
        ("alias", ["a:1", "d:1"]),
        ("extra", ["c:1", "d:1"]),
        ("sql", ["b:1"]),
        ("unheard", ["a:1", "b:1", "c:1", "d:1"]),
        ("", ["a:1", "b:1", "c:1", "d:1"]),
    ],
)
def test_a_model_goes_where_it_is_listed(model: str, addresses: list[str]) -> None:
    assert [e.address for e in Serving(FLEET).narrow(FLEET, model)] == addresses


def test_only_the_given_ones_are_left() -> None:
    serving = Serving(FLEET)
    assert serving.narrow(FLEET[:1], "sql") == ()
    assert list(serving.narrow(FLEET[1:], "m")) == [FLEET[1], FLEET[3]]


_served = st.none() | st.sampled_from([PLAIN, ADAPTED, OTHER, ServedModels()])


@given(st.lists(_served, max_size=5), st.sampled_from(["m", "alias", "sql", "o", "x", ""]))
def test_whoever_lists_a_model_stays_and_nobody_is_left_out_of_what_nobody_lists(
    served: list[ServedModels | None], model: str
) -> None:
    fleet: list[Endpoint] = [
        make.endpoint(f"h{number}:1", models=models) for number, models in enumerate(served)
    ]
    kept = list(Serving(fleet).narrow(fleet, model))
    listing = [e for e in fleet if e.models is not None and model in e.models.listed]
    assert [e for e in fleet if e in kept] == kept
    assert all(e in kept for e in listing)
    assert all(e in listing or e.models is None for e in kept) or not listing
    if not listing:
        assert kept == fleet
