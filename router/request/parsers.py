"""The parsers a configuration can list, and the APIs that each of them reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

import msgspec

from router.request.parse import APIS, Api, Apis


class ParserPlugin(Protocol):
    """A parser of the configuration.

    Attributes:
        claims: Last segments of the paths it reads; none: any path, whose body it leaves unread.
    """

    claims: ClassVar[frozenset[str]]


class _Parameterless(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parsers take no parameters."""


class OpenAiParser(_Parameterless, frozen=True):
    """openai-parser: the OpenAI API, as engines speak it."""

    claims: ClassVar[frozenset[str]] = frozenset(
        {
            "completions",
            "chat/completions",
            "completions/render",
            "chat/completions/render",
            "embeddings",
            "images/generations",
            "conversations",
            "responses",
        }
    )


class AnthropicParser(_Parameterless, frozen=True):
    """anthropic-parser: the Messages API."""

    claims: ClassVar[frozenset[str]] = frozenset({"v1/messages", "v1/messages/count_tokens"})


class VllmHttpParser(_Parameterless, frozen=True):
    """vllmhttp-parser: APIs of vLLM's own."""

    claims: ClassVar[frozenset[str]] = frozenset({"inference/v1/generate", "invocations"})


class SglangHttpParser(_Parameterless, frozen=True):
    """sglanghttp-parser: SGLang's generate API."""

    claims: ClassVar[frozenset[str]] = frozenset({"generate"})


class PassthroughParser(_Parameterless, frozen=True):
    """passthrough-parser: whatever no other parser reads goes by load."""

    claims: ClassVar[frozenset[str]] = frozenset()


def apis(parsers: Iterable[ParserPlugin]) -> Apis:
    """What is read where these parsers are listed, in order.

    A parser that claims nothing takes the rest, and what is listed after it is never asked.
    """
    known: dict[str, Api] = {}
    for parser in parsers:
        if not parser.claims:
            return Apis(known=known, others_pass=True)
        known.update((path, APIS[path]) for path in parser.claims)
    return Apis(known=known, others_pass=False)
