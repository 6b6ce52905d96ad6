"""The engine core does what a real vLLM did: same reuse, same events, same messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simulator.wire import Event, encode_batch
from tests.simulator.playback import play

RECORDINGS = ["bs16_sha256_full", "bs16_sha256cbor_bytes", "bs16_restart"]


class Content:
    """Names blocks by what they hold, so that streams with other hashes compare."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {None: None}

    def message(self, payload: bytes) -> list[Any]:
        return [self._event(event) for event in msgspec.msgpack.decode(payload)[1]]

    def _event(self, event: dict[str, Any]) -> Any:
        names = event.pop("block_hashes", [])
        if event["type"] != "BlockStored":
            return event | {"blocks": [self._known[name] for name in names]}
        parent = event.pop("parent_block_hash")
        content = parent_content = self._known[parent]
        for index, name in enumerate(names):
            tokens = tuple(event["token_ids"][index * 16 : index * 16 + 16])
            content = hash((content, tokens, event["lora_name"], str(event["extra_keys"][index])))
            self._known[name] = content
        return event | {"blocks": len(names), "parent": parent_content}


def with_time_of(payload: bytes, events: tuple[Event, ...]) -> bytes:
    """Our payload for the events, as if written when a recorded one was."""
    seconds, _, rank = msgspec.msgpack.decode(payload)
    return encode_batch(seconds, events, rank, "map", "int")


def names_a_lora_block(payload: bytes, lora_blocks: set[int]) -> bool:
    """Whether events concern a block that an adapter filled; remembers those stored."""
    concerned = False
    for event in msgspec.msgpack.decode(payload)[1]:
        names = set(event.get("block_hashes", []))
        if event.get("lora_name"):
            lora_blocks |= names
        concerned |= bool(names & lora_blocks)
    return concerned


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_request_reuses_what_the_real_engine_reused(name: str) -> None:
    played = list(play(name))
    got = {one.step.name: sorted(one.cached_tokens) for one in played}
    assert got == {one.step.name: sorted(one.step.cached_tokens) for one in played}
    assert sum(map(sum, got.values())) > 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_message_holds_the_events_of_the_recorded_one(name: str) -> None:
    ours, theirs = Content(), Content()
    for one in play(name):
        want = [theirs.message(payload) for payload in one.step.payloads]
        got = [ours.message(encode_batch(0.0, events, 0, "map", "int")) for events in one.messages]
        assert got == want, one.step.name


@pytest.mark.parametrize("name", ["bs16_sha256_full", "bs16_restart"])
def test_messages_equal_the_recorded_ones_byte_for_byte(name: str) -> None:
    lora_blocks: set[int] = set()
    compared = 0
    for one in play(name):
        for payload, events in zip(one.step.payloads, one.messages, strict=True):
            if names_a_lora_block(payload, lora_blocks):
                continue
            assert with_time_of(payload, events) == payload, one.step.name
            compared += 1
    assert compared == {"bs16_sha256_full": 105, "bs16_restart": 4}[name]
