from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.estimate_parameters import EstimateParameters
from router.producers.token_parameters import (
    RenderParameters,
    SidecarParameters,
    TokenParameters,
    UdsParameters,
)


def read(**parameters: Any) -> TokenParameters:
    return msgspec.convert(parameters, TokenParameters)


def test_the_words_of_the_field_are_read() -> None:
    assert read() == TokenParameters()
    assert read(sidecar={"socket": "s", "timeout": "1s"}).sidecar == SidecarParameters("s", "1s")
    url = "http://render:8000/"
    rendered = read(modelName="m", vllm={"url": url, "mmTimeout": "9s"})
    assert rendered.vllm == RenderParameters(url, "5s", "9s")
    uds = read(modelName="m", udsTokenizerConfig={"socketFile": "s", "useTCP": True})
    assert uds.uds_tokenizer_config == UdsParameters("s", True, {})
    assert read(estimate={}).estimate == EstimateParameters()


@pytest.mark.parametrize(
    ("known", "model"),
    [
        ({}, "m"),
        ({"m": "/models/a", "n": "/models/b"}, "/models/a"),
        ({"m": "/models/a/tokenizer.json"}, "/models/a"),
    ],
    ids=str,
)
def test_a_model_is_where_the_map_says(known: dict[str, str], model: str) -> None:
    assert UdsParameters(model_tokenizer_map=known).model("m") == model


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sidecar": {}, "vllm": {}, "modelName": "m"}, "one backend"),
        ({"estimate": {}, "sidecar": {}}, "one backend: sidecar or estimate"),
        ({"vllm": {}}, "modelName is required"),
        ({"udsTokenizerConfig": {}}, "modelName is required"),
        ({"udsTokenizerConfig": {"useTCP": True}, "modelName": "m"}, "HOST:PORT.*uds"),
        ({"udsTokenizerConfig": {"useTcp": True}, "modelName": "m"}, "useTcp"),
        (
            {"udsTokenizerConfig": {"modelTokenizerMap": {"n": "x"}}, "modelName": "m"},
            "modelTokenizerMap lacks 'm'",
        ),
        ({"estimate": {"image": {"mode": "x"}}}, "estimate.image.mode"),
        ({"vllm": {"url": "https://x"}, "modelName": "m"}, "url"),
        ({"vllm": {"timeout": "soon"}, "modelName": "m"}, "timeout"),
        ({"sidecar": {"timeout": "soon"}}, "timeout"),
        ({"sidecar": {"sockets": ""}}, "sockets"),
    ],
    ids=str,
)
def test_a_mistake_names_its_place(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        read(**parameters)
