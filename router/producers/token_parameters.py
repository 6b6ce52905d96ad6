"""Parameters of token-producer: at most one backend, in llm-d's words where it has them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from router.config.duration import seconds


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class SidecarParameters(_Camel, frozen=True):
    """
    Attributes:
        socket: Path of the sidecar's Unix socket; empty: the router's ``--tokenizer-socket``.
        timeout: What tokenizing one request may cost, as a Go duration.
    """

    socket: str = ""
    timeout: str = "2s"

    def __post_init__(self) -> None:
        # While decoding, so that the message carries the path of these parameters.
        seconds(self.timeout, "timeout")


class RenderParameters(_Camel, frozen=True):
    """
    Attributes:
        url: A server with vLLM's render routes.
        timeout: What rendering a text prompt may cost, as a Go duration.
        mm_timeout: The same where a message has parts.
    """

    url: Annotated[str, msgspec.Meta(pattern="^http://")] = "http://localhost:8000"
    timeout: str = "5s"
    mm_timeout: str = "30s"

    def __post_init__(self) -> None:
        seconds(self.timeout, "timeout")
        seconds(self.mm_timeout, "mmTimeout")


class TokenParameters(_Camel, frozen=True):
    """
    Attributes:
        model_name: Tokenizer to use for every request; empty: that of the requested model's base.
        sidecar: Ids from the tokenizer sidecar; what runs where no backend is named.
        vllm: Ids from a server's render routes, over HTTP.
    """

    model_name: str = ""
    sidecar: SidecarParameters | None = None
    vllm: RenderParameters | None = None

    def __post_init__(self) -> None:
        if self.sidecar is not None and self.vllm is not None:
            raise ValueError("name one backend: sidecar or vllm")
        if self.vllm is not None and not self.model_name:
            raise ValueError("modelName is required with vllm")
