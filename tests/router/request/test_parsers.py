from __future__ import annotations

import pytest

from router import catalog
from router.errors import BadRequest
from router.request.parse import APIS, EVERY_API, api_of, parse
from router.request.parsers import (
    AnthropicParser,
    OpenAiParser,
    ParserPlugin,
    PassthroughParser,
    apis,
)
from router.request.types import Kind

CHAT = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


def headers(path: str, method: str = "POST") -> dict[str, str]:
    return {":path": path, ":method": method}


def test_the_parsers_share_out_all_apis() -> None:
    claims = [claim for parser in catalog.PARSERS.values() for claim in parser.claims]
    assert sorted(claims) == sorted(APIS)
    assert apis([cls() for cls in catalog.PARSERS.values()]) == EVERY_API


def test_an_api_whose_parser_is_not_listed_goes_by_load() -> None:
    listed = apis([AnthropicParser(), PassthroughParser()])
    assert api_of(headers("/v1/chat/completions"), listed) == "other"
    request = parse(headers("/v1/chat/completions"), CHAT, "r", apis=listed)
    assert (request.kind, request.model) == (Kind.OTHER, "")
    assert api_of(headers("/v1/messages"), listed) == "messages"


def test_without_a_parser_that_takes_the_rest_it_is_refused() -> None:
    listed = apis([AnthropicParser()])
    with pytest.raises(BadRequest, match="no parser reads '/v1/chat/completions'"):
        parse(headers("/v1/chat/completions"), CHAT, "r", apis=listed)


@pytest.mark.parametrize("body", [None, b""], ids=["hidden", "empty"])
def test_a_request_without_a_body_needs_no_parser(body: bytes | None) -> None:
    request = parse(headers("/v1/models", "GET"), body, "r", apis=apis([OpenAiParser()]))
    assert request.kind is Kind.OTHER


def test_what_is_listed_after_the_one_that_takes_the_rest_is_never_asked() -> None:
    parsers: list[ParserPlugin] = [PassthroughParser(), OpenAiParser()]
    assert apis(parsers).known == {}
