"""Handing caches over, as a recorded pair of real engines did."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from simulator.engine import Engine
from simulator.hashing import Identity
from simulator.transfer import LEASE_S, Exports, TransferAsk, offer
from simulator.types import EngineRequest, Output
from simulator.wire import Event, encode_batch
from tests.simulator.playback import HASHER, make_engine
from tests.simulator.recordings import frames, lines
from tests.simulator.test_recordings import Content

LAST = "pd-shared-prefix-2-decode"
"""The exchanges from here on are in the recording without their tokens."""


def exchanges() -> list[Any]:
    """The recorded exchanges whose tokens are known, in order."""
    found = []
    for line in lines("pd_nixl.requests.jsonl"):
        found.append(line)
        if line["step"] == LAST:
            return found
    raise AssertionError


def prompt_of(line: Any) -> list[int]:
    response = line["response"]
    asked: list[int] | None = line["body"].get("prompt")
    rendered: list[int] = response.get("prompt_token_ids", [])
    return asked or rendered


def feed(engine: Engine, line: Any) -> tuple[Output, list[Event]]:
    """Ask an engine core for a recorded answer; its last output and what it announced."""
    prompt, tokens = prompt_of(line), line["response"]["choices"][0]["token_ids"]
    params = msgspec.convert(line["body"].get("kv_transfer_params") or {}, TransferAsk)
    request = EngineRequest(
        request_id=line["step"],
        prompt_token_ids=prompt,
        digests=HASHER.chain(prompt, Identity()),
        max_tokens=len(tokens),
        answer=iter(tokens),
        fetched=bool(params.do_remote_prefill),
    )
    engine.add(request, 0.0)
    outputs: list[Output] = []
    events: list[Event] = []
    while engine.schedule(0.0) is not None:
        result = engine.complete(0.0)
        outputs += result.outputs
        events += result.events
    return outputs[-1], events


def test_both_engine_cores_reuse_and_announce_what_the_real_ones_did() -> None:
    engines = {"prefill": make_engine(), "decode": make_engine()}
    first = exchanges()[0]
    feed(engines["prefill"], first)  # the recording begins after this prompt was there once
    announced: dict[str, list[Event]] = {"prefill": [], "decode": []}
    for line in exchanges():
        output, events = feed(engines[line["engine"]], line)
        announced[line["engine"]] += events
        params = line["response"]["kv_transfer_params"]
        if params is not None:
            assert output.cached_tokens == params["remote_prefill_cached_tokens"], line["step"]
            assert len(output.blocks) == len(params["remote_block_ids"][0]), line["step"]
    for engine, events in announced.items():
        ours = Content().message(encode_batch(0.0, tuple(events), 0, "map", "int"))
        assert ours == recorded_events(engine)
        assert len(ours) > 3


def recorded_events(engine: str) -> list[Any]:
    content, events = Content(), []
    by_step = {step: i for i, step in enumerate(line["step"] for line in exchanges())}
    sent = (line["engine"] for line in lines("pd_nixl.frames.jsonl"))
    for name, (step, (_, _, payload)) in zip(sent, frames("pd_nixl"), strict=True):
        if name == engine and step in by_step:
            events += content.message(payload)
    return events


def test_what_an_answer_offers_has_the_keys_of_the_recorded_one_in_order() -> None:
    recorded = exchanges()[0]["response"]["kv_transfer_params"]
    ours = offer("e", "r", ("127.0.0.1", 5600), [1, 11], 20, 16)
    assert list(ours) == list(recorded)
    same = recorded | {"remote_engine_id": "e", "remote_request_id": "r"}
    assert ours == same
    assert msgspec.convert(recorded, TransferAsk).is_complete


@pytest.mark.parametrize("missing", ["remote_engine_id", "remote_host", "remote_block_ids"])
def test_parameters_without_a_place_are_incomplete(missing: str) -> None:
    params = offer("e", "r", ("h", 1), [1], 20, 0)
    del params[missing]
    assert not msgspec.convert(params, TransferAsk).is_complete


def test_a_prompt_can_be_fetched_for_as_long_as_its_lease_lasts() -> None:
    exports = Exports("e")
    exports.add("r", 100.0)
    assert exports.has("e", "r", 100.0 + LEASE_S - 1)
    assert not exports.has("e", "r", 100.0 + LEASE_S)
    assert not exports.has("e", "other", 100.0)
    assert not exports.has("other", "r", 100.0)
    exports.add("s", 200.0)
    assert len(exports._until_s) == 1
