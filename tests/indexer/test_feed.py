"""Feeds: frames, sequence numbers, models, trust."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import frames, intake
from indexer.block import Holder, Identity, Trust
from indexer.events import Reason
from indexer.feed import Feed, Source
from indexer.frames import model_of
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import BASE, E1, NAMES, TOPIC


class Bench:
    """One feed on an index of its own."""

    def __init__(self, base_model: str | None = None, shared: bool = False, rank: int = 0) -> None:
        self.index = BlockIndex(16)
        self.guesses = Speculative(self.index.bits)
        self.ledgers: dict[Holder, Ledger] = {}
        source = Source(Holder(E1.address, rank), "tcp://x", base_model=base_model, shared=shared)
        self.feed = Feed(source, self.ledger)

    def ledger(self, holder: Holder) -> Ledger:
        return self.ledgers.setdefault(holder, Ledger(holder, self.index, self.guesses))

    def hear(self, *messages: list[bytes]) -> None:
        for message in messages:
            self.feed.receive(message, wall_s=3.5)

    def score(self, rank: int = 0, identity: Identity = BASE) -> int:
        match = self.index.match(make.chains(identity=identity)).get(Holder(E1.address, rank))
        return match.blocks if match else 0


def test_a_stream_heard_from_its_start_is_exact() -> None:
    bench = Bench()
    assert bench.feed.trust is Trust.PARTIAL
    bench.hear(make.frames(0, make.stored()), make.frames(1, make.removed(NAMES[3:])))
    assert (bench.feed.trust, bench.score()) == (Trust.EXACT, 3)


def test_counts_and_times_what_it_takes_in() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored(), make.removed(), ts=1.0), make.frames(1, ts=3.0))
    stats = bench.feed.stats
    assert (stats.messages, stats.events, stats.last_seq) == (2, 2, 1)
    assert (stats.last_ts, stats.lag_s) == (3.0, 0.5)
    assert bench.feed.models == {"tiny"}


def test_a_late_join_is_partial_and_credited_for_what_arrived() -> None:
    bench = Bench()
    bench.hear(make.frames(7, make.stored()))
    assert (bench.feed.trust, bench.score()) == (Trust.PARTIAL, 4)
    bench.hear(make.frames(8))
    assert bench.feed.trust is Trust.PARTIAL


def test_a_gap_makes_it_partial_and_keeps_what_is_there() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()), make.frames(4))
    assert (bench.feed.trust, bench.score()) == (Trust.PARTIAL, 4)
    assert (bench.feed.stats.gaps, bench.feed.stats.missed) == (1, 3)


@pytest.mark.parametrize(("seq", "trust"), [(0, Trust.EXACT), (2, Trust.PARTIAL)])
def test_a_sequence_that_falls_is_a_restart_and_drops_everything(seq: int, trust: Trust) -> None:
    bench = Bench()
    bench.guesses.record(E1, make.chains(), 9.0)
    bench.hear(make.frames(0, make.stored()), *(make.frames(n) for n in range(1, 6)))
    bench.hear(make.frames(seq, make.stored(NAMES[:1]), ts=2.0))
    assert (bench.score(), bench.feed.trust, bench.feed.stats.restarts) == (1, trust, 1)
    assert bench.guesses.masks == {}


def test_the_same_message_again_is_dropped() -> None:
    bench = Bench()
    for _ in range(2):
        bench.hear(make.frames(0, make.stored()))
    bench.hear(make.frames(1, make.removed()))
    assert (bench.score(), bench.feed.stats.duplicates) == (0, 1)
    assert bench.feed.trust is Trust.EXACT


def test_the_same_number_on_another_message_is_a_restart() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored(), ts=1.0), make.frames(0, make.stored([1]), ts=2.0))
    assert (bench.score(), bench.feed.stats.restarts) == (1, 1)
    assert bench.feed.stats.duplicates == 0


def test_a_clear_ends_doubt_about_the_past() -> None:
    bench = Bench()
    bench.hear(make.frames(7, make.stored()), make.frames(8, make.CLEARED, make.stored(NAMES[:2])))
    assert (bench.feed.trust, bench.score()) == (Trust.EXACT, 2)
    bench = Bench()
    bench.hear(make.frames(7, {"type": "AllBlocksCleared", "medium": "CPU"}))
    assert bench.feed.trust is Trust.PARTIAL


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], Reason.BAD_FRAMES),
        ([b"junk"], Reason.BAD_FRAMES),
        (make.frames(1)[:2], Reason.BAD_FRAMES),
        ([*make.frames(1), b""], Reason.BAD_FRAMES),
        ([TOPIC, b"\0\0\0\1", make.payload()], Reason.BAD_SEQUENCE),
        ([TOPIC, bytes(9), make.payload()], Reason.BAD_SEQUENCE),
        ([TOPIC, bytes(8), bytes(frames.MAX_PAYLOAD_BYTES + 1)], Reason.TOO_LARGE),
    ],
    ids=["none", "one", "two", "four", "short number", "long number", "large"],
)
def test_bad_frames_are_counted_and_change_nothing(parts: list[bytes], reason: Reason) -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()), parts)
    assert bench.feed.rejected == {reason: 1}
    bench.hear(make.frames(1, make.removed(NAMES[3:])))
    assert (bench.score(), bench.feed.trust) == (3, Trust.EXACT)


@pytest.mark.parametrize(
    ("payload", "reason", "trust"),
    [
        (b"\xc1", Reason.NOT_MSGPACK, Trust.PARTIAL),
        (b"\x90", Reason.BAD_BATCH, Trust.PARTIAL),
        (make.payload(7), Reason.BAD_EVENT, Trust.PARTIAL),
        (make.payload(make.stored(block_size=0)), Reason.COUNT_MISMATCH, Trust.PARTIAL),
        (make.payload({"type": "Novelty"}), Reason.UNKNOWN_EVENT, Trust.EXACT),
    ],
)
def test_what_cannot_be_read_is_counted_and_costs_trust(
    payload: bytes, reason: Reason, trust: Trust
) -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()), [TOPIC, (1).to_bytes(8, "big"), payload])
    assert (bench.feed.rejected, bench.feed.trust) == ({reason: 1}, trust)
    bench.hear(make.frames(2))
    assert (bench.score(), bench.feed.stats.gaps) == (4, 0)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.binary(max_size=12), max_size=5), st.integers(0, 2**32))
def test_no_frames_make_it_raise_or_credit_anything(parts: list[bytes], seed: int) -> None:
    bench = Bench(base_model="tiny")
    rng = random.Random(seed)
    mutated = bytearray(make.payload(make.CLEARED, make.removed()))
    mutated[rng.randrange(len(mutated))] = rng.randrange(256)
    bench.hear(parts, [b"", bytes(8), bytes(mutated)], [TOPIC, *parts], parts * 2)
    assert bench.score() == 0
    assert bench.index.sizes()["blocks"] == 0


@pytest.mark.parametrize(
    ("topic", "model"),
    [
        (b"kv@127.0.0.1:8000@tiny", "tiny"),
        (b"kv@@org/model", "org/model"),
        (b"kv@a@", None),
        (b"kv@a", None),
        (b"kv@a@b@c", None),
        (b"kv-events", None),
        (b"", None),
        (b"xx@a@tiny", None),
        (b"kv@a@\xff", "\ufffd"),
    ],
)
def test_only_one_form_of_topic_carries_a_model(topic: bytes, model: str | None) -> None:
    assert model_of(topic) == model


def test_the_topics_model_wins_over_the_base_model() -> None:
    bench = Bench(base_model="base")
    bench.hear(make.frames(0, make.stored()))
    bench.hear(make.frames(1, make.stored([21], make.prompt(1)), topic=b"other"))
    assert bench.score() == 4
    assert bench.score(identity=Identity("base")) == 1
    assert bench.feed.models == {"tiny", "base"}


def test_messages_wait_for_their_model_and_are_then_applied_in_order() -> None:
    bench = Bench()
    for number, event in enumerate((make.stored(), make.removed(NAMES[2:]))):
        bench.hear(make.frames(number, event, topic=b"kv-events"))
    assert (bench.score(), bench.feed.stats.events) == (0, 0)
    bench.feed.base_model = "tiny"
    assert (bench.score(), bench.feed.trust) == (2, Trust.EXACT)
    bench.hear(make.frames(2, make.removed(NAMES[:1]), topic=b"kv-events"))
    assert bench.score() == 0


def test_too_many_waiting_messages_push_the_oldest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_UNNAMED_MESSAGES", 2)
    bench = Bench()
    for number in range(3):
        bench.hear(make.frames(number, make.stored(NAMES[:1]), topic=b""))
    bench.feed.base_model = "tiny"
    assert bench.feed.rejected == {Reason.NO_MODEL: 1}
    assert (bench.score(), bench.feed.trust) == (1, Trust.PARTIAL)


def test_too_many_waiting_bytes_push_the_oldest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_UNNAMED_BYTES", len(make.payload(make.stored())) + 1)
    bench = Bench()
    for number in range(3):
        bench.hear(make.frames(number, make.stored(), topic=b""))
    assert bench.feed.rejected == {Reason.NO_MODEL: 2}


def test_messages_without_a_model_are_void_once_the_stream_names_one() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored([9], make.prompt(1, 640)), topic=b""))
    bench.hear(make.frames(1, make.stored()))
    bench.feed.base_model = "tiny"
    assert (bench.score(), bench.feed.trust) == (4, Trust.PARTIAL)
    assert bench.feed.rejected == {Reason.NO_MODEL: 1}


def test_models_of_one_stream_are_bounded() -> None:
    bench = Bench()
    for number in range(intake.MAX_MODELS + 3):
        bench.hear(make.frames(number, topic=f"kv@a@m{number}".encode()))
    assert len(bench.feed.models) == intake.MAX_MODELS
    assert bench.feed.rejected == {Reason.TOO_MANY_MODELS: 3}


@pytest.mark.parametrize("rank", [0, 3, None])
def test_a_stream_of_its_own_belongs_to_its_holder_whatever_the_rank_says(rank: int | None) -> None:
    bench = Bench(rank=2)
    bench.hear(make.frames(0, make.stored(), rank=rank))
    assert bench.score(rank=2) == 4


def test_on_a_shared_stream_the_message_names_the_rank() -> None:
    bench = Bench(shared=True)
    bench.hear(
        make.frames(0, make.stored(NAMES[:1]), rank=None),
        make.frames(1, make.stored(NAMES[:2]), rank=1),
        make.frames(2, make.stored(NAMES[:3]), rank=2),
        make.frames(3, make.CLEARED, rank=1),
    )
    assert [bench.score(rank) for rank in range(3)] == [1, 0, 3]
    bench.hear(make.frames(0, ts=9.0))
    assert [bench.score(rank) for rank in range(3)] == [0, 0, 0]


def test_ranks_of_a_shared_stream_are_bounded() -> None:
    bench = Bench(shared=True)
    bench.hear(make.frames(0, make.stored(), rank=intake.MAX_RANKS))
    assert bench.feed.rejected == {Reason.BAD_BATCH: 1}
    assert len(bench.index.bits) == 0


@pytest.mark.parametrize(
    ("seq", "trust", "score"),
    [(1, Trust.EXACT, 4), (5, Trust.PARTIAL, 4), (0, Trust.EXACT, 0)],
    ids=["next in sequence", "gap", "restart"],
)
def test_after_a_lost_connection_the_next_message_decides(
    seq: int, trust: Trust, score: int
) -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()))
    bench.feed.lost()
    assert (bench.feed.trust, bench.score(), bench.feed.stats.losses) == (Trust.STALE, 0, 1)
    bench.hear(make.frames(seq, ts=2.0))
    assert (bench.feed.trust, bench.score()) == (trust, score)


def test_a_process_proven_to_be_the_same_is_credited_again() -> None:
    bench = Bench()
    bench.hear(make.frames(3, make.stored()))
    bench.feed.lost()
    bench.feed.lost()
    bench.feed.proven()
    assert (bench.feed.trust, bench.score()) == (Trust.PARTIAL, 4)
    bench.feed.proven()
    assert bench.feed.trust is Trust.PARTIAL


def test_a_process_proven_before_the_connection_was_back_is_to_be_proven_again() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()))
    bench.feed.lost()
    bench.feed.proven()
    assert (bench.feed.trust, bench.score()) == (Trust.PARTIAL, 4)
    bench.feed.connected()
    assert (bench.feed.trust, bench.score()) == (Trust.STALE, 0)
    bench.feed.proven()
    assert (bench.feed.trust, bench.score()) == (Trust.PARTIAL, 4)
    bench.hear(make.frames(1, ts=2.0))
    bench.feed.connected()
    assert (bench.feed.trust, bench.score()) == (Trust.EXACT, 4)


def test_a_connection_lost_before_anything_was_heard_changes_nothing() -> None:
    bench = Bench()
    bench.feed.lost()
    assert bench.feed.trust is Trust.PARTIAL


@pytest.mark.parametrize(("seq", "trust"), [(0, Trust.EXACT), (2, Trust.PARTIAL)])
def test_a_known_restart_drops_everything_and_starts_over(seq: int, trust: Trust) -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored()), make.frames(1))
    bench.feed.lost()
    bench.feed.restarted()
    assert (bench.score(), bench.feed.trust) == (0, Trust.PARTIAL)
    bench.hear(make.frames(seq, make.stored(NAMES[:1])))
    assert (bench.score(), bench.feed.trust, bench.feed.stats.restarts) == (1, trust, 1)


def test_messages_that_wait_do_not_outlive_a_restart() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored(), topic=b""))
    bench.feed.restarted()
    bench.feed.base_model = "tiny"
    assert (bench.score(), bench.feed.rejected) == (0, {Reason.NO_MODEL: 1})


def test_a_closed_stream_takes_in_nothing() -> None:
    bench = Bench()
    bench.hear(make.frames(0, make.stored([9], make.prompt(1, 640)), topic=b""))
    bench.feed.close()
    bench.hear(make.frames(1, make.stored()))
    bench.feed.base_model = "tiny"
    assert bench.score() == 0
    assert bench.index.sizes()["blocks"] == 0
