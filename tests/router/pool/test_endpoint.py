"""An endpoint says what its labels say."""

from __future__ import annotations

from router.pool.endpoint import ROLE_LABEL, Endpoint, Role


def test_the_role_is_that_of_the_label() -> None:
    endpoint = Endpoint(name="a", address="10.0.0.1:8000", labels={ROLE_LABEL: "decode"})
    assert endpoint.role == Role.DECODE


def test_without_a_label_there_is_no_role() -> None:
    assert Endpoint(name="a", address="10.0.0.1:8000").role is None
