"""Parameters of token-producer: at most one backend, in llm-d's words where it has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from router.config.duration import seconds
from router.producers.estimate_parameters import EstimateParameters

_URL = "http://localhost:8000"


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

    url: Annotated[str, msgspec.Meta(pattern="^http://", examples=[_URL])] = _URL
    timeout: str = "5s"
    mm_timeout: str = "30s"

    def __post_init__(self) -> None:
        seconds(self.timeout, "timeout")
        seconds(self.mm_timeout, "mmTimeout")


class UdsParameters(_Camel, frozen=True):
    """
    Attributes:
        socket_file: Path of the service's Unix socket; empty: where llm-d's service puts it.
        use_tcp: `socket_file` is a host and a port instead.
        model_tokenizer_map: Model -> where the service finds its tokenizer: a folder, or the
            tokenizer.json in it. Empty: it is asked for the model by its name.
    """

    socket_file: str = ""
    use_tcp: bool = msgspec.field(default=False, name="useTCP")
    model_tokenizer_map: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.use_tcp and not self.socket_file:
            raise ValueError("with useTCP, socketFile is HOST:PORT and required")

    def model(self, name: str) -> str | None:
        """What the service calls the model; None where the map does not have it."""
        if not self.model_tokenizer_map:
            return name
        place = self.model_tokenizer_map.get(name)
        return place and place.removesuffix("/tokenizer.json")


class TokenParameters(_Camel, frozen=True):
    """
    Attributes:
        model_name: Tokenizer to use for every request; empty: that of the requested model's base.
        sidecar: Ids from the tokenizer sidecar; what runs where no backend is named, unless loading
            finds that estimates will do.
        vllm: Ids from a server's render routes, over HTTP.
        uds_tokenizer_config: Ids from llm-d's tokenizer service, over gRPC.
        estimate: Ids that stand for four bytes of text each; no engine's.
    """

    model_name: str = ""
    sidecar: SidecarParameters | None = None
    vllm: RenderParameters | None = None
    uds_tokenizer_config: UdsParameters | None = None
    estimate: EstimateParameters | None = None

    def __post_init__(self) -> None:
        named = self._named()
        if len(named) > 1:
            raise ValueError(f"name one backend: {' or '.join(named)}")
        if not self.model_name and named in (["vllm"], ["udsTokenizerConfig"]):
            raise ValueError(f"modelName is required with {named[0]}")
        uds = self.uds_tokenizer_config
        if uds is not None and uds.model(self.model_name) is None:
            raise ValueError(f"udsTokenizerConfig.modelTokenizerMap lacks {self.model_name!r}")

    def in_force(self) -> Mapping[str, object]:
        """Parameters that come to another value."""
        return {} if self.backend else {"sidecar": SidecarParameters()}

    @property
    def backend(self) -> str | None:
        """The backend that is named, if any."""
        return next(iter(self._named()), None)

    def _named(self) -> list[str]:
        backends = {
            "sidecar": self.sidecar,
            "vllm": self.vllm,
            "udsTokenizerConfig": self.uds_tokenizer_config,
            "estimate": self.estimate,
        }
        return [name for name, backend in backends.items() if backend is not None]
