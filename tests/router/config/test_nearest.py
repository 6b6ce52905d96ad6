from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from router.config.nearest import suggest, with_suggestion
from router.pool.endpoint import Role


class Inner(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    max_value: int = 0


class Outer(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    conditions: list[Inner] = []
    by_name: dict[str, Inner] = {}
    only: Inner | None = None
    empty: Nothing | None = None
    mode: Literal["sum", "disabled"] = "sum"
    role: Role = Role.DECODE


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


@pytest.mark.parametrize(
    ("given", "clause"),
    [
        ("que-scorer", "did you mean 'queue-scorer'?"),
        ("QUEUE_SCORER", "did you mean 'queue-scorer'?"),
        ("zzz", "known: decode-filter, queue-scorer"),
    ],
)
def test_the_nearest_name_is_told_or_all_of_them(given: str, clause: str) -> None:
    assert suggest(given, ["queue-scorer", "decode-filter"]) == clause


def test_where_there_is_no_name_none_is_told() -> None:
    assert suggest("x", []) == "known: none"


@pytest.mark.parametrize(
    ("data", "clause"),
    [
        ({"conditons": []}, "`conditons`; did you mean 'conditions'?"),
        ({"conditions": [{}, {"maxvalue": 1}]}, "`maxvalue`; did you mean 'maxValue'? - at"),
        ({"byName": {"a": {"max_value": 1}}}, "did you mean 'maxValue'? - at `$.byName[...]`"),
        ({"only": {"maxval": 1}}, "did you mean 'maxValue'? - at `$.only`"),
        ({"mode": "disable"}, "'disable'; did you mean 'disabled'? - at `$.mode`"),
        ({"role": "encodes"}, "'encodes'; did you mean 'encode'? - at `$.role`"),
        ({"empty": {"max": 1}}, "`max`; it takes none - at `$.empty`"),
    ],
    ids=["top", "list", "mapping", "optional", "literal", "enum", "no-fields"],
)
def test_an_unknown_field_or_value_is_told_with_the_one_that_was_meant(
    data: dict[str, object], clause: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(data, Outer)
    assert clause in with_suggestion(str(caught.value), Outer)


def test_other_messages_stay_as_they_are() -> None:
    assert with_suggestion("Expected `int`, got `str`", Outer) == "Expected `int`, got `str`"


class Address(msgspec.Struct):
    plain: Annotated[str, msgspec.Meta(pattern="^tcp:")] = "tcp:"
    shown: Annotated[str, msgspec.Meta(pattern="^tcp:'?", examples=["tcp://a:1"])] = "tcp:"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"shown": "a"}, "expected text such as 'tcp://a:1' - at `$.shown`"),
        ({"plain": "a"}, "Expected `str` matching regex '^tcp:' - at `$.plain`"),
        ([{"shown": "a"}], "expected text such as 'tcp://a:1' - at `$[0].shown`"),
    ],
    ids=["with-an-example", "without", "in-a-list"],
)
def test_text_of_another_form_is_told_by_an_example(data: object, said: str) -> None:
    kind: Any = list[Address] if isinstance(data, list) else Address
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(data, kind)
    assert with_suggestion(str(refused.value), kind) == said
