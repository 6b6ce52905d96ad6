from __future__ import annotations

import msgspec
import pytest

from simulator.wire import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    decode_seq,
    encode_batch,
    encode_seq,
)
from tests.simulator.playback import play
from tests.simulator.recordings import frames, lines

DIGEST = bytes(range(24)) + b"\xff\x00\x00\x00\x00\x00\x00\x01"


def test_the_array_layout_equals_the_one_of_older_engines_byte_for_byte() -> None:
    messages = {one.step.name: one.messages for one in play("bs16_sha256_full")}
    compared = 0
    for step, (_, _, payload) in frames("reencoded_vllm_0.10.2-0.13"):
        seconds, _, rank = msgspec.msgpack.decode(payload)
        events = messages[step].pop(0)
        # The paths of adapters are not recorded, so their blocks have other hashes here.
        if "lora" in step:
            continue
        assert encode_batch(seconds, events, rank, "array", "int") == payload, step
        compared += 1
    assert compared == 20


def test_hashes_are_numbers_of_64_bits_or_whole_digests() -> None:
    removed = [BlockRemoved(DIGEST)]
    for form, name in (("int", 0xFF00000000000001), ("bytes", DIGEST)):
        payload = encode_batch(0.5, removed, 3, "map", form)  # type: ignore[arg-type]
        seconds, (event,), rank = msgspec.msgpack.decode(payload)
        assert (seconds, rank) == (0.5, 3)
        assert event["block_hashes"] == [name]


def test_a_digest_has_the_size_of_the_recorded_ones() -> None:
    _, (_, _, payload) = next(frames("bs16_sha256cbor_bytes"))
    stored = msgspec.msgpack.decode(payload)[1][0]
    (ours, *_), *_ = (one.messages[0] for one in play("bs16_sha256cbor_bytes") if one.messages)
    written = msgspec.msgpack.decode(encode_batch(0.0, [ours], 0, "map", "bytes"))[1][0]
    assert list(written) == list(stored)
    assert [len(name) for name in written["block_hashes"]] == [32] * len(stored["block_hashes"])
    assert [len(name) for name in stored["block_hashes"]] == [32] * len(stored["block_hashes"])


def test_a_session_is_named_only_when_there_is_one() -> None:
    stored = BlockStored(digests=(), parent=None, token_ids=(), block_size=1, extra_keys=())
    named = msgspec.structs.replace(stored, session_id="s")
    payload = encode_batch(0.0, [stored, named, AllBlocksCleared()], 0, "map", "int")
    without, with_session, cleared = msgspec.msgpack.decode(payload)[1]
    assert with_session == without | {"session_id": "s"}
    assert cleared == {"type": "AllBlocksCleared"}


def test_the_array_of_a_cleared_cache_is_its_tag_alone() -> None:
    payload = encode_batch(0.0, [AllBlocksCleared()], 0, "array", "int")
    assert msgspec.msgpack.decode(payload)[1] == [["AllBlocksCleared"]]


def test_sequence_numbers_look_as_in_the_recording() -> None:
    numbers = [frame for _, (_, frame, _) in frames("bs16_sha256_full")]
    assert numbers == [encode_seq(number) for number in range(109)]
    assert decode_seq(numbers[-1]) == 108
    assert len(list(lines("bs16_sha256_full.frames.jsonl"))) == 109


def test_a_sequence_number_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="8 bytes, got 4"):
        decode_seq(b"\0" * 4)
