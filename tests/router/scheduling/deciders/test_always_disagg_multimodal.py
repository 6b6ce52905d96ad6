from __future__ import annotations

import msgspec
import pytest

from router.producers.facts import Facts, MediaItem, Tokens
from router.request.types import Kind
from router.scheduling.deciders.always_disagg_multimodal import AlwaysDisaggMultimodalDecider
from tests.support import make

CHAT = msgspec.json.encode(
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
)


@pytest.mark.parametrize("media", [(), (MediaItem("h", 0, 4),)], ids=["text", "image"])
def test_the_tokens_say_whether_there_are_media(media: tuple[MediaItem, ...]) -> None:
    facts = Facts()
    facts.put(Tokens(bytes(40), media), "token-producer")
    decider = AlwaysDisaggMultimodalDecider()
    assert decider.disaggregates(make.request(), None, facts) is bool(media)


def test_where_nobody_knows_the_tokens_the_body_says_it() -> None:
    decider = AlwaysDisaggMultimodalDecider()
    chat = make.request(kind=Kind.CHAT, body=CHAT)
    assert decider.disaggregates(chat, None, Facts())
    assert not decider.disaggregates(make.request(kind=Kind.CHAT, body=b"{}"), None, Facts())
