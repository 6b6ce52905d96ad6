from __future__ import annotations

from typing import Any

import pytest

from router.extproc import metadata
from router.extproc.pb import ext_proc_pb2 as pb


def message(namespace: str, **fields: Any) -> pb.ProcessingRequest:
    made = pb.ProcessingRequest()
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    made.metadata_context.filter_metadata[namespace].update(named)
    return made


@pytest.mark.parametrize(
    ("hint", "meant"),
    [
        (["10.0.0.1:80", "10.0.0.2"], ("10.0.0.1:80", "10.0.0.2")),
        ("10.0.0.1:80, 10.0.0.2,", ("10.0.0.1:80", "10.0.0.2")),
        (["10.0.0.1,10.0.0.2"], ("10.0.0.1", "10.0.0.2")),
        ([], ()),
        ("", ()),
        ([3, None], ()),
    ],
    ids=str,
)
def test_a_hint_is_a_list_or_a_text(hint: Any, meant: tuple[str, ...]) -> None:
    given = message(metadata.SUBSET_NAMESPACE, x_gateway_destination_endpoint_subset=hint)
    assert metadata.subset(given) == meant


def test_without_a_hint_everybody_is_meant() -> None:
    assert metadata.subset(pb.ProcessingRequest()) is None
    assert metadata.subset(message("envoy.lb", x="y")) is None
    assert metadata.subset(message(metadata.SUBSET_NAMESPACE, x="y")) is None


def test_a_gateway_tells_who_answers() -> None:
    told = message("envoy.lb", x_gateway_destination_endpoint_served="10.0.0.1:80")
    assert metadata.served(told) == "10.0.0.1:80"


def test_plain_envoy_tells_who_answers() -> None:
    told = pb.ProcessingRequest()
    told.attributes[metadata.ATTRIBUTES].update({"upstream.address": "10.0.0.1:80"})
    assert metadata.served(told) == "10.0.0.1:80"


@pytest.mark.parametrize(
    "silent",
    [pb.ProcessingRequest(), message("envoy.lb", x="y"), message("other")],
    ids=["nothing", "other-key", "other-namespace"],
)
def test_nobody_need_tell(silent: pb.ProcessingRequest) -> None:
    assert metadata.served(silent) == ""
