"""Junk makes no decoder raise, and changes nothing of what the index knows.

The engines of these tests hold four blocks in two tiers; what junk does is seen against that.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from indexer.engines import trtllm
from indexer.engines.layout import FIELDS
from indexer.engines.vllm import decode
from indexer.events import Batch
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.engines.test_trtllm import CREATED, JSON, TWO
from tests.indexer.engines.test_trtllm import HOSTILE as TRT_HOSTILE
from tests.indexer.engines.test_vllm import MAP
from tests.indexer.make import BASE, E1, NAMES

encode = msgspec.msgpack.encode

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=40)
    | st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared", "type", "GPU"]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=15,
)
HOSTILE = st.fixed_dictionaries(
    {"type": st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared"])},
    optional=dict.fromkeys((*FIELDS["BlockStored"], "cache_salt", "locality", "metadata"), VALUES),
)


class Known:
    """An index that was told something over one stream."""

    def __init__(self) -> None:
        self.index = PrefixIndex(16)
        self.feed = self.index.open(Source(E1, "tcp://x", base_model="tiny"))
        self._seq = -1
        cpu = make.stored(NAMES[:2], make.prompt(2), medium="CPU")
        self.hear(make.payload(make.stored(), cpu))

    def hear(self, payload: bytes, batch: Batch | None = None) -> None:
        self._seq += 1
        self.feed.receive([b"", self._seq.to_bytes(8, "big"), payload], 1.0, batch)

    def facts(self) -> object:
        """All that requests and people can see of the blocks."""
        state = self.index.state(E1)
        return (
            self.index.match([BASE], pack(make.prompt()), 0.0).matches,
            self.index.stats().sizes,
            (state.blocks, state.parked_blocks, state.refused, state.block_size, state.models),
        )


def _is_harmless(message: bytes) -> None:
    """Nothing is raised; what gives no event changes nothing, and the next message counts."""
    known = Known()
    before = known.facts()
    known.hear(message)
    batch = decode(message)
    if not batch.events:
        assert known.facts() == before
        assert known.feed.rejected.total() == len(batch.rejected)
        known.hear(make.payload(make.removed(NAMES[3:])))
        assert known.index.state(E1).blocks == {"gpu": 3, "cpu": 2}


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"\x93\x01\x91\x81\x90\x01\xc0")
@example(b"\x93\x01\x91\xd6\xff\xff\xff\xff\xff\xc0")
def test_no_bytes_make_it_raise(payload: bytes) -> None:
    for message in (payload, encode([1.0, [payload], 0])):
        _is_harmless(message)


@settings(deadline=None)
@given(st.lists(HOSTILE | VALUES, max_size=5), VALUES, VALUES)
def test_no_message_makes_it_raise_and_nothing_is_lost_without_a_reason(
    events: list[object], ts: object, rank: object
) -> None:
    message = encode([ts, events, rank])
    batch = decode(message)
    assert len(batch.events) + len(batch.rejected) == len(events)
    _is_harmless(message)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_no_mutation_of_a_real_message_makes_it_raise(seed: int) -> None:
    rng = random.Random(seed)
    payload = bytearray(make.payload(MAP, make.removed(), make.CLEARED))
    for _ in range(rng.randint(1, 8)):
        payload[rng.randrange(len(payload))] = rng.randrange(256)
    _is_harmless(bytes(payload))


ARRAYS = st.builds(
    lambda tag, fields: [tag, *fields],
    st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared"]),
    st.lists(VALUES, max_size=14),
)
"""Events as older engines and SGLang write them."""

METADATA = HOSTILE.map(lambda event: {**event, "metadata": {"cache_salt": event.get("lora_id")}})

REAL = [
    make.removed(NAMES[2:3]),
    make.stored([21, 22], make.prompt(2, 500)),
    ["BlockStored", [23], 22, make.prompt(1, 900), 16, None, "GPU"],
    {"type": "BlockRemoved", "block_hashes": [21], "medium": "GPU"},
]


@settings(deadline=None)
@given(
    st.lists(HOSTILE | ARRAYS | METADATA | VALUES, max_size=6), st.randoms(use_true_random=False)
)
def test_junk_between_events_changes_nothing_of_what_they_do(
    drawn: Sequence[Any], rng: random.Random
) -> None:
    junk = [event for event in drawn if not decode(make.payload(event)).events]
    assume(junk)
    mixed = list(REAL)
    for event in junk:
        mixed.insert(rng.randrange(len(mixed) + 1), event)
    alone, among = Known(), Known()
    alone.hear(make.payload(*REAL))
    among.hear(make.payload(*mixed))
    assert among.facts() == alone.facts()
    assert among.feed.rejected.total() == len(junk)


@settings(deadline=None)
@given(
    st.lists(st.fixed_dictionaries({"type": st.just("stored")}) | TRT_HOSTILE | JSON, max_size=5)
)
def test_junk_of_tensorrt_between_events_changes_nothing_of_what_they_do(
    drawn: Sequence[Any],
) -> None:
    junk = [data for data in drawn if _gives_nothing(data)]
    assume(junk)
    alone, among = Known(), Known()
    for known, data in ((alone, []), (among, junk)):
        events = [CREATED, *data, TWO]
        numbered = [{"event_id": n, "data": event} for n, event in enumerate(events)]
        for entry in trtllm.Decoder().decode(json.dumps(numbered).encode()):
            known.hear(b"%d" % (entry.seq or 0), entry.batch)
    assert among.facts() == alone.facts()
    assert among.feed.rejected.total() == len(junk)


def _gives_nothing(data: object) -> bool:
    answer = json.dumps([{"event_id": 1, "data": data}]).encode()
    return all(entry.batch.rejected for entry in trtllm.Decoder().decode(answer))
