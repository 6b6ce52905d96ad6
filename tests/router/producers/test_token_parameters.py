from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.token_parameters import (
    RenderParameters,
    SidecarParameters,
    TokenParameters,
)


def read(**parameters: Any) -> TokenParameters:
    return msgspec.convert(parameters, TokenParameters)


def test_the_words_of_the_field_are_read() -> None:
    assert read() == TokenParameters()
    assert read(sidecar={"socket": "s", "timeout": "1s"}).sidecar == SidecarParameters("s", "1s")
    url = "http://render:8000/"
    rendered = read(modelName="m", vllm={"url": url, "mmTimeout": "9s"})
    assert rendered.vllm == RenderParameters(url, "5s", "9s")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sidecar": {}, "vllm": {}, "modelName": "m"}, "one backend"),
        ({"vllm": {}}, "modelName is required"),
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
