"""What the bodies of all APIs share: a strict reading, and the fields that every API may carry."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from router.errors import BadRequest
from router.request.types import Kind


class StreamOptions(msgspec.Struct):
    """``stream_options`` of the OpenAI APIs."""

    include_usage: bool | None = None


class Fields(msgspec.Struct, kw_only=True):
    """Fields that every API may carry. Those the router does not read are the engine's business."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: Any = None
    bootstrap_host: Any = None
    bootstrap_port: Any = None
    bootstrap_room: Any = None
    vllm_xargs: dict[str, Any] | None = None

    @property
    def tells_usage(self) -> bool:
        """The answer will say what it cost: a stream does so only when asked."""
        options = self.stream_options
        return not self.stream or (options is not None and bool(options.include_usage))


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser makes of a body.

    Attributes:
        fields: The body.
        kind: How `prompt` reads; OTHER where there is none to match.
        prompt: An OpenAI body that renders to the prompt the engine will compute.
        token_ids: First prompt as little-endian u32, where the client sent ids.
        prompt_known: There is a prompt to match.
        prompts: How many; what is known is known of the first.
        cache_salt: Client's salt.
        tells_usage: The answer will say what it cost.
    """

    fields: Fields
    kind: Kind = Kind.OTHER
    prompt: bytes = b""
    token_ids: bytes | None = None
    prompt_known: bool = False
    prompts: int = 1
    cache_salt: str | None = None
    tells_usage: bool = False


_T = TypeVar("_T")


def decode(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """Raises BadRequest."""
    if not body:
        raise BadRequest("the request body is empty")
    try:
        read = decoder.decode(body)
        if not body.isascii():
            # What the decoder passes over it does not check; engines read all of it.
            body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read the request body: {error}") from error
    except RecursionError as error:
        raise BadRequest("cannot read the request body: it is nested too deeply") from error
    return read
