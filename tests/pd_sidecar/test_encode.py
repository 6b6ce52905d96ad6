from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.pd_sidecar.fakes import DECODED, PARAMS, PREFILLED, FakeEngine, hangs, says, setup
from tests.support.ports import free_port

CHAT = "/v1/chat/completions"


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def chat(*parts: Any) -> dict[str, Any]:
    text = {"type": "text", "text": "what is it"}
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [text, *parts]},
    ]
    return {"messages": messages, "max_tokens": 9, "stream": True}


BODY = chat(image("a"), image("b"), image("a"), {"type": "input_audio", "input_audio": {}})


def encoder(*names: str) -> FakeEngine:
    """An encoder that hands something over for each item, by these names."""
    return FakeEngine(*(says({"ec_transfer_params": {name: {"port": 1}}}) for name in names))


def fleet(prefill: FakeEngine | None = None, **config: Any) -> Any:
    return setup(prefill or FakeEngine(PREFILLED), FakeEngine(DECODED), encodes=True, **config)


async def test_each_item_is_encoded_once_and_what_comes_of_it_goes_on() -> None:
    one, two = encoder("h1", "h3"), encoder("h2")
    async with one.serving(), two.serving(), fleet() as fake:
        named = {"x-encoder-hosts-ports": f"{one.address},{two.address}"}
        response, _ = await fake.ask(BODY, CHAT, **named)
    assert response.headers["x-warmroute-prefill"] == "ok"
    items = [seen.body["messages"] for engine in (one, two) for seen in engine.seen]
    wanted = [image("a"), {"type": "input_audio", "input_audio": {}}, image("b")]
    assert items == [[{"role": "user", "content": [item]}] for item in wanted]
    assert {seen.body["max_tokens"] for seen in (*one.seen, *two.seen)} == {1}
    handed = {name: {"port": 1} for name in ("h1", "h2", "h3")}
    assert fake.prefill.seen[0].body["ec_transfer_params"] == handed
    decode = BODY | {"ec_transfer_params": handed, "kv_transfer_params": PARAMS}
    assert fake.decode.seen[0].body == decode
    assert (fake.stats.encoded, fake.stats.not_encoded) == (3, 0)


async def test_without_a_prefill_engine_decode_gets_what_was_encoded() -> None:
    one = encoder("h1")
    async with one.serving(), fleet() as fake:
        body = chat(image("a"))
        response, _ = await fake.ask(body, CHAT, at="", **{"x-encoder-hosts-ports": one.address})
    assert response.status == 200
    assert "x-warmroute-prefill" not in response.headers
    assert fake.decode.seen[0].body == body | {"ec_transfer_params": {"h1": {"port": 1}}}
    assert fake.stats.prefills == {}


async def test_encoders_that_share_a_store_hand_nothing_over_and_bodies_keep_their_bytes() -> None:
    one, raw = FakeEngine(says({})), msgspec.json.format(msgspec.json.encode(chat(image("a"))))
    async with one.serving(), fleet() as fake:
        await fake.ask(raw, CHAT, at="", **{"x-encoder-hosts-ports": one.address})
    assert [seen.raw for seen in fake.decode.seen] == [raw]
    assert len(one.seen) == 1


@pytest.mark.parametrize("fault", ["broken", "gone", "slow"])
async def test_what_no_encoder_computed_is_left_to_the_next_engine(fault: str) -> None:
    answer = {"broken": says({}, 500), "gone": says({}), "slow": hangs}[fault]
    one = FakeEngine(answer)
    async with one.serving(), fleet(prefill_timeout_s=0.3) as fake:
        address = f"127.0.0.1:{free_port()}" if fault == "gone" else one.address
        body = chat(image("a"))
        response, _ = await fake.ask(body, CHAT, at="", **{"x-encoder-hosts-ports": address})
    assert response.status == 200
    assert fake.decode.seen[0].body == body
    assert fake.stats.not_encoded == 1


async def test_an_encoder_that_finds_fault_with_the_request_answers_the_client() -> None:
    one = FakeEngine(says({"error": "no image"}, 400))
    async with one.serving(), fleet() as fake:
        named = {"x-encoder-hosts-ports": one.address}
        response, body = await fake.ask(chat(image("a")), CHAT, **named)
    assert (response.status, body) == (400, b'{"error": "no image"}')
    assert "x-warmroute-prefill" not in response.headers
    assert fake.prefill.seen == fake.decode.seen == []


async def test_a_prompt_without_media_needs_no_encoder() -> None:
    one = encoder("h1")
    async with one.serving(), fleet() as fake:
        await fake.ask({"prompt": "x"}, at="", **{"x-encoder-hosts-ports": one.address})
        await fake.ask({"messages": "odd"}, CHAT, at="", **{"x-encoder-hosts-ports": one.address})
    assert one.seen == []
    assert len(fake.decode.seen) == 2


async def test_encoders_must_be_allowed_and_are_called_only_if_told_so() -> None:
    one = encoder("h1")
    named = {"x-encoder-hosts-ports": "10.0.0.1:1"}
    async with one.serving(), fleet(open=False, allowed=(("127.0.0.1", 1),)) as fake:
        response, _ = await fake.ask(chat(image("a")), CHAT, at="", **named)
        assert response.status == 403
    async with fleet() as fake, setup(fake.prefill, fake.decode) as plain:
        response, _ = await plain.ask(chat(image("a")), CHAT, at="", **named)
        assert response.status == 200
